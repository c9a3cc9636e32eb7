#include "rollout/timestamp.h"

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iterator>

namespace sarissa::rollout {
namespace {

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kSecondsPerDay = 86'400;
// The years that the original can hold.
constexpr int64_t kMinYear = -262'143;
constexpr int64_t kMaxYear = 262'142;

// The proleptic Gregorian calendar over 400-year eras that start in March, so that the leap day
// comes last.
int64_t DaysFromCivil(int64_t year, int64_t month, int64_t day) {
  if (month <= 2) --year;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146'097 + day_of_era - 719'468;
}

struct Civil {
  int64_t year;
  int64_t month;
  int64_t day;
};

Civil CivilFromDays(int64_t days) {
  days += 719'468;
  const int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const int64_t day_of_era = days - era * 146'097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * day_of_year + 2) / 153;
  const int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  return Civil{year_of_era + era * 400 + (month <= 2 ? 1 : 0), month,
               day_of_year - (153 * shifted + 2) / 5 + 1};
}

int64_t DaysInMonth(int64_t year, int64_t month) {
  if (month == 2) return (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)) ? 29 : 28;
  return (month == 4 || month == 6 || month == 9 || month == 11) ? 30 : 31;
}

class TimestampReader {
 public:
  explicit TimestampReader(std::string_view text) : text_(text) {}

  bool Take(char c) {
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeAny(std::string_view choices) {
    if (text_.empty() || choices.find(text_.front()) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }
  // Exactly `count` digits in [low, high].
  bool Number(size_t count, int64_t low, int64_t high, int64_t& value) {
    return Digits(count, count, value) && value >= low && value <= high;
  }
  bool Digits(size_t least, size_t most, int64_t& value) {
    size_t n = 0;
    value = 0;
    for (; n < most && !text_.empty() && IsDigit(text_.front()); ++n) {
      value = value * 10 + (text_.front() - '0');
      text_.remove_prefix(1);
    }
    return n >= least;
  }
  bool Year(int64_t& year) {
    if (text_.empty() || (text_.front() != '-' && text_.front() != '+')) return Digits(4, 4, year);
    const bool negative = text_.front() == '-';
    text_.remove_prefix(1);
    if (!Digits(4, 6, year)) return false;
    if (negative) year = -year;
    return year >= kMinYear && year <= kMaxYear;
  }
  bool Fraction(int64_t& micros) {
    micros = 0;
    if (!Take('.')) return true;
    if (text_.empty() || !IsDigit(text_.front())) return false;
    int64_t scale = kMicrosPerSecond / 10;
    while (!text_.empty() && IsDigit(text_.front())) {
      micros += (text_.front() - '0') * scale;
      scale /= 10;
      text_.remove_prefix(1);
    }
    return true;
  }
  bool empty() const { return text_.empty(); }
  char front() const { return text_.front(); }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  std::string_view text_;
};

Status Bad(std::string_view reason) {
  return Error(ErrorKind::kInvalid, "invalid RFC 3339 timestamp: {}", reason);
}

Result<int64_t> ReadOffsetSeconds(TimestampReader& reader) {
  if (reader.empty()) return Bad("the zone is missing");
  if (reader.TakeAny("Zz")) return 0;
  const bool west = reader.front() == '-';
  if (!reader.TakeAny("+-")) return Bad("bad zone");
  int64_t hours = 0;
  int64_t minutes = 0;
  if (!reader.Number(2, 0, 23, hours)) return Bad("bad zone offset");
  reader.Take(':');
  if (!reader.Number(2, 0, 59, minutes)) return Bad("bad zone offset");
  const int64_t seconds = hours * 3600 + minutes * 60;
  return west ? -seconds : seconds;
}

void AppendPadded(int64_t value, int width, std::string& out) {
  const std::string digits = std::to_string(value);
  const auto length = static_cast<int>(digits.size());
  if (length < width) out.append(static_cast<size_t>(width - length), '0');
  out.append(digits);
}

}  // namespace

Result<int64_t> ParseTimestamp(std::string_view text) {
  TimestampReader reader(text);
  int64_t year = 0;
  int64_t month = 0;
  int64_t day = 0;
  if (!reader.Year(year)) return Bad("bad year");
  if (!reader.Take('-') || !reader.Number(2, 1, 12, month)) return Bad("bad month");
  if (!reader.Take('-') || !reader.Number(2, 1, DaysInMonth(year, month), day))
    return Bad("bad day");
  if (!reader.TakeAny("Tt ")) return Bad("expected 'T' or a space after the date");
  int64_t hour = 0;
  int64_t minute = 0;
  int64_t second = 0;
  int64_t micros = 0;
  if (!reader.Number(2, 0, 23, hour)) return Bad("bad hour");
  if (!reader.Take(':') || !reader.Number(2, 0, 59, minute)) return Bad("bad minute");
  if (!reader.Take(':') || !reader.Number(2, 0, 60, second)) return Bad("bad second");
  if (!reader.Fraction(micros)) return Bad("bad fraction");
  ARROW_ASSIGN_OR_RAISE(const int64_t offset, ReadOffsetSeconds(reader));
  if (!reader.empty()) return Bad("trailing characters");
  const int64_t seconds = DaysFromCivil(year, month, day) * kSecondsPerDay + hour * 3600 +
                          minute * 60 + second - offset;
  return seconds * kMicrosPerSecond + micros;
}

bool IsInYearRange(int64_t micros) {
  static const int64_t first = DaysFromCivil(kMinYear, 1, 1) * kSecondsPerDay * kMicrosPerSecond;
  static const int64_t end = DaysFromCivil(kMaxYear + 1, 1, 1) * kSecondsPerDay * kMicrosPerSecond;
  return micros >= first && micros < end;
}

void AppendTimestamp(int64_t micros, std::string& out) {
  int64_t seconds = micros / kMicrosPerSecond;
  int64_t fraction = micros % kMicrosPerSecond;
  if (fraction < 0) {
    fraction += kMicrosPerSecond;
    --seconds;
  }
  int64_t days = seconds / kSecondsPerDay;
  int64_t rest = seconds % kSecondsPerDay;
  if (rest < 0) {
    rest += kSecondsPerDay;
    --days;
  }
  const Civil civil = CivilFromDays(days);
  if (civil.year < 0) out.push_back('-');
  if (civil.year > 9999) out.push_back('+');
  AppendPadded(std::abs(civil.year), 4, out);
  out.push_back('-');
  AppendPadded(civil.month, 2, out);
  out.push_back('-');
  AppendPadded(civil.day, 2, out);
  out.push_back('T');
  AppendPadded(rest / 3600, 2, out);
  out.push_back(':');
  AppendPadded(rest / 60 % 60, 2, out);
  out.push_back(':');
  AppendPadded(rest % 60, 2, out);
  if (fraction != 0) {
    out.push_back('.');
    if (fraction % 1000 == 0) {
      AppendPadded(fraction / 1000, 3, out);
    } else {
      AppendPadded(fraction, 6, out);
    }
  }
  out.push_back('Z');
}

}  // namespace sarissa::rollout
