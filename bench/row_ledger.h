// What the load generator knows about every row it sent, and the comparison with what the server
// lists afterwards. A row whose request was refused with 4xx must not be there; one whose outcome
// is unknown (5xx, a broken connection) may.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sarissa::bench {

enum class RowOutcome : uint8_t { kUnknown, kAcknowledged, kRefused };

class RowLedger {
 public:
  explicit RowLedger(int clients) : rows_(static_cast<size_t>(clients)) {}

  // Takes the next sequence numbers of a client, with the outcome unknown; returns the first.
  uint64_t Take(int client, int rows);
  void Settle(int client, uint64_t first_sequence, int rows, RowOutcome outcome);

  void MarkListed(std::string_view id);

  struct Verdict {
    uint64_t acknowledged = 0;
    uint64_t listed = 0;
    uint64_t missing = 0;    // acknowledged, not listed
    uint64_t doubled = 0;    // listed more than once
    uint64_t surplus = 0;    // listed, though refused
    uint64_t strangers = 0;  // listed, never sent
    bool holds() const { return missing + doubled + surplus + strangers == 0; }
  };
  Verdict Judge() const;

 private:
  struct Row {
    RowOutcome outcome = RowOutcome::kUnknown;
    uint8_t times_listed = 0;  // stays at 255
  };

  std::vector<std::vector<Row>> rows_;  // by client, then sequence
  uint64_t strangers_ = 0;
};

// Finds the ids in the JSON text of a record list that arrives in pieces.
class IdScanner {
 public:
  explicit IdScanner(RowLedger& ledger) : ledger_(ledger) {}
  void Feed(std::string_view piece);
  // Ids found so far.
  uint64_t found() const { return found_; }

 private:
  RowLedger& ledger_;
  std::string text_;  // not searched yet: the end of the last piece, where an id may have begun
  uint64_t found_ = 0;
};

}  // namespace sarissa::bench
