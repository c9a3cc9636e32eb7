// Append requests that cost almost nothing to make: the bytes are built once, a send patches the
// ids into them.
//
// An id is "bench-CCCC-SSSSSSSSSSSS", client and sequence number in hexadecimal, so that whoever
// reads it back knows which request carried it. A request belongs to one client; the view that Next
// returns holds until the next call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sarissa::bench {

enum class Workload {
  kSmall,     // about 0.5 KB of JSON, no tokens
  kTokens8k,  // 8192 output tokens with log probabilities, about 133 KB
};

struct RowId {
  uint32_t client = 0;
  uint64_t sequence = 0;
};

// Bytes of an id.
inline constexpr size_t kRowIdSize = 23;

std::optional<RowId> ParseRowId(std::string_view text);

// One row as JSON, its id "bench-0000-000000000000". Rows differ by `seed` and are the same in
// every run.
std::string MakeRecord(Workload workload, uint64_t seed);

struct RequestOptions {
  std::string host;   // value of the Host header
  std::string store;  // must need no percent-encoding
  Workload workload = Workload::kSmall;
  int rows = 1;
  uint32_t client = 0;  // below 65536
};

class AppendRequests {
 public:
  explicit AppendRequests(const RequestOptions& options);

  // A whole HTTP request whose rows have the ids first_sequence, first_sequence + 1, ...
  std::string_view Next(uint64_t first_sequence);

 private:
  struct Variant {
    std::string bytes;
    std::vector<size_t> sequence_offsets;  // where each row's twelve digits start
  };

  // Requests differ, so that nothing downstream profits from seeing one row over and over.
  std::vector<Variant> variants_;
  size_t next_variant_ = 0;
};

}  // namespace sarissa::bench
