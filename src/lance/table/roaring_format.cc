#include "lance/table/roaring_format.h"

#include <roaring/roaring.h>
#include <cstring>
#include <memory>

namespace sarissa::lance {
namespace {

constexpr uint32_t kCookie = 12346;
constexpr uint32_t kCookieWithRuns = 12347;
constexpr uint32_t kMaxContainers = 65536;
constexpr uint32_t kMaxArrayCardinality = 4096;
constexpr size_t kBitsetBytes = 8192;
// From this many containers on, a bitmap with runs has an offset table too.
constexpr uint32_t kOffsetThreshold = 4;

class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  Result<std::span<const uint8_t>> Take(size_t length, const char* what) {
    if (bytes_.size() - position_ < length) {
      return Error(ErrorKind::kCorrupt, "roaring bitmap: {} at {} needs {} bytes, {} are left",
                   what, position_, length, bytes_.size() - position_);
    }
    const auto taken = bytes_.subspan(position_, length);
    position_ += length;
    return taken;
  }

  template <typename T>
  Result<T> Read(const char* what) {
    ARROW_ASSIGN_OR_RAISE(const auto bytes, Take(sizeof(T), what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t position_ = 0;
};

uint16_t LoadU16(std::span<const uint8_t> bytes, size_t index) {
  uint16_t value;
  std::memcpy(&value, bytes.data() + 2 * index, sizeof(value));
  return value;
}

Status BadContainer(uint32_t key, const std::string& what) {
  return Error(ErrorKind::kCorrupt, "roaring bitmap: container {}: {}", key, what);
}

Status ReadArray(Cursor& cursor, uint32_t key, uint32_t cardinality, std::vector<uint32_t>& out) {
  ARROW_ASSIGN_OR_RAISE(const auto values,
                        cursor.Take(size_t{2} * cardinality, "an array container"));
  for (uint32_t i = 0; i < cardinality; ++i) {
    const uint32_t value = LoadU16(values, i);
    if (i > 0 && value <= LoadU16(values, i - 1))
      return BadContainer(key, "its values are not ascending");
    out.push_back(key << 16 | value);
  }
  return Status::OK();
}

Status ReadBitset(Cursor& cursor, uint32_t key, uint32_t cardinality, std::vector<uint32_t>& out) {
  ARROW_ASSIGN_OR_RAISE(const auto words, cursor.Take(kBitsetBytes, "a bitset container"));
  const size_t before = out.size();
  for (uint32_t bit = 0; bit < kBitsetBytes * 8; ++bit) {
    if ((words[bit / 8] >> (bit % 8) & 1) != 0) out.push_back(key << 16 | bit);
  }
  if (out.size() - before == cardinality) return Status::OK();
  return BadContainer(
      key, fmt::format("its header says {} values, its bits {}", cardinality, out.size() - before));
}

Status ReadRuns(Cursor& cursor, uint32_t key, uint32_t cardinality, std::vector<uint32_t>& out) {
  ARROW_ASSIGN_OR_RAISE(const auto count, cursor.Read<uint16_t>("a run count"));
  ARROW_ASSIGN_OR_RAISE(const auto runs, cursor.Take(size_t{4} * count, "a run container"));
  const size_t before = out.size();
  uint32_t next_free = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t start = LoadU16(runs, 2 * i);
    const uint32_t last = start + LoadU16(runs, 2 * i + 1);
    if (start < next_free || last > 0xFFFF)
      return BadContainer(key, "its runs overlap or leave the container");
    for (uint32_t value = start; value <= last; ++value) out.push_back(key << 16 | value);
    next_free = last + 1;
  }
  if (out.size() - before == cardinality) return Status::OK();
  return BadContainer(
      key, fmt::format("its header says {} values, its runs {}", cardinality, out.size() - before));
}

}  // namespace

Result<std::vector<uint32_t>> ParseRoaring(std::span<const uint8_t> bytes, uint64_t max_values) {
  Cursor cursor(bytes);
  ARROW_ASSIGN_OR_RAISE(const auto cookie, cursor.Read<uint32_t>("the cookie"));
  uint32_t containers = 0;
  std::span<const uint8_t> run_flags;
  if ((cookie & 0xFFFF) == kCookieWithRuns) {
    containers = (cookie >> 16) + 1;
    ARROW_ASSIGN_OR_RAISE(run_flags, cursor.Take((containers + 7) / 8, "the run flags"));
  } else if (cookie == kCookie) {
    ARROW_ASSIGN_OR_RAISE(containers, cursor.Read<uint32_t>("the container count"));
  } else {
    return Error(ErrorKind::kCorrupt, "roaring bitmap: unknown cookie {}", cookie);
  }
  if (containers > kMaxContainers)
    return Error(ErrorKind::kCorrupt, "roaring bitmap: {} containers", containers);

  ARROW_ASSIGN_OR_RAISE(const auto headers,
                        cursor.Take(size_t{4} * containers, "the container headers"));
  uint64_t total = 0;
  for (uint32_t i = 0; i < containers; ++i) {
    if (i > 0 && LoadU16(headers, 2 * i) <= LoadU16(headers, 2 * i - 2)) {
      return BadContainer(LoadU16(headers, 2 * i), "keys are not ascending");
    }
    total += uint64_t{LoadU16(headers, 2 * i + 1)} + 1;
  }
  if (total > max_values) {
    return Error(ErrorKind::kCorrupt, "roaring bitmap: {} values where at most {} can be", total,
                 max_values);
  }
  if (run_flags.empty() || containers >= kOffsetThreshold) {
    ARROW_RETURN_NOT_OK(cursor.Take(size_t{4} * containers, "the offset table").status());
  }

  std::vector<uint32_t> out;
  out.reserve(total);
  for (uint32_t i = 0; i < containers; ++i) {
    const uint32_t key = LoadU16(headers, 2 * i);
    const uint32_t cardinality = uint32_t{LoadU16(headers, 2 * i + 1)} + 1;
    if (!run_flags.empty() && (run_flags[i / 8] >> (i % 8) & 1) != 0) {
      ARROW_RETURN_NOT_OK(ReadRuns(cursor, key, cardinality, out));
    } else if (cardinality <= kMaxArrayCardinality) {
      ARROW_RETURN_NOT_OK(ReadArray(cursor, key, cardinality, out));
    } else {
      ARROW_RETURN_NOT_OK(ReadBitset(cursor, key, cardinality, out));
    }
  }
  return out;
}

std::string SerializeRoaring(std::span<const uint32_t> values) {
  const std::unique_ptr<roaring_bitmap_t, decltype(&roaring_bitmap_free)> bitmap(
      roaring_bitmap_of_ptr(values.size(), values.data()), &roaring_bitmap_free);
  SARISSA_CHECK(bitmap != nullptr);
  std::string out(roaring_bitmap_portable_size_in_bytes(bitmap.get()), '\0');
  roaring_bitmap_portable_serialize(bitmap.get(), out.data());
  return out;
}

}  // namespace sarissa::lance
