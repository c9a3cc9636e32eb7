#include "row_ledger.h"

#include <algorithm>

#include "append_request.h"

namespace sarissa::bench {
namespace {

// No text value can hold this: inside a string its quotes would be escaped. Other keys that end in
// "id" have more before it.
constexpr std::string_view kIdKey = R"("id":)";

}  // namespace

uint64_t RowLedger::Take(int client, int rows) {
  std::vector<Row>& taken = rows_[static_cast<size_t>(client)];
  const uint64_t first = taken.size();
  taken.resize(first + static_cast<size_t>(rows));
  return first;
}

void RowLedger::Settle(int client, uint64_t first_sequence, int rows, RowOutcome outcome) {
  std::vector<Row>& taken = rows_[static_cast<size_t>(client)];
  for (int i = 0; i < rows; ++i) taken[first_sequence + static_cast<uint64_t>(i)].outcome = outcome;
}

void RowLedger::MarkListed(std::string_view id) {
  const std::optional<RowId> parsed = ParseRowId(id);
  if (!parsed || parsed->client >= rows_.size() ||
      parsed->sequence >= rows_[parsed->client].size()) {
    ++strangers_;
    return;
  }
  uint8_t& times = rows_[parsed->client][parsed->sequence].times_listed;
  if (times < UINT8_MAX) ++times;
}

RowLedger::Verdict RowLedger::Judge() const {
  Verdict verdict;
  verdict.strangers = strangers_;
  for (const std::vector<Row>& client : rows_) {
    for (const Row& row : client) {
      const bool acknowledged = row.outcome == RowOutcome::kAcknowledged;
      verdict.acknowledged += acknowledged;
      verdict.listed += row.times_listed > 0;
      verdict.missing += acknowledged && row.times_listed == 0;
      verdict.doubled += row.times_listed > 1;
      verdict.surplus += row.outcome == RowOutcome::kRefused && row.times_listed > 0;
    }
  }
  return verdict;
}

void IdScanner::Feed(std::string_view piece) {
  text_ += piece;
  size_t done = 0;
  while (true) {
    const size_t key = text_.find(kIdKey, done);
    if (key == std::string::npos) {
      done = std::max(done, text_.size() - std::min(text_.size(), kIdKey.size() - 1));
      break;
    }
    done = key;
    const size_t quote = text_.find_first_not_of(' ', key + kIdKey.size());
    if (quote == std::string::npos || text_.size() - quote <= kRowIdSize) break;
    const size_t id = quote + 1;
    ledger_.MarkListed(std::string_view(text_).substr(id, kRowIdSize));
    ++found_;
    done = id + kRowIdSize;
  }
  text_.erase(0, done);
}

}  // namespace sarissa::bench
