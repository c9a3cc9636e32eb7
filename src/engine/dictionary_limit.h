// A store holds at most 128 distinct values of an Int8 dictionary column (role): past that the
// original and pylance's compaction break the table. The 129th is refused before anything is
// written.
//
// Thread safe. Values are counted when they are admitted, also if their append fails later: the
// count errs on the safe side until the table is opened again.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace sarissa::engine {

inline constexpr size_t kMaxDictionaryValues = 128;

class DictionaryLimit {
 public:
  explicit DictionaryLimit(const arrow::Schema& schema);

  bool empty() const { return columns_.empty(); }
  const std::vector<std::string>& columns() const { return columns_; }

  enum class Verdict {
    kAdmitted,
    kNeedsStored,  // the stored values decide: call AddStored with the table's rows, then Admit
                   // again
  };
  // `stored_rows` is an upper bound of the rows in the table: few rows cannot pass the limit, so
  // they need not be read.
  Result<Verdict> Admit(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                        uint64_t stored_rows);

  // Values of rows that are in the table already. `complete` after the last batch.
  void AddStored(const arrow::RecordBatch& batch);
  void StoredComplete();

 private:
  using Values = std::map<std::string, std::set<std::string, std::less<>>>;

  std::vector<std::string> columns_;
  std::mutex mutex_;  // leaf
  Values known_;
  bool complete_ = false;
};

}  // namespace sarissa::engine
