// Writes the rows of one new fragment into one data file of a table.
//
// The file is made with the first row: without rows there is no file. One thread at a time.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <string>

#include "env/random.h"
#include "lance/file/file_writer.h"
#include "object_store/object_store.h"
#include "proto/lance_table.pb.h"

namespace sarissa::lance {

class FragmentWriter {
 public:
  // `store` and `random` outlive the writer.
  FragmentWriter(object_store::ObjectStore& store, env::Random& random, std::string table,
                 Schema schema, FileVersion version);
  Status Write(const arrow::RecordBatch& batch);
  // The fragment with id 0; without files and rows when nothing was written. The data file is
  // durable.
  Result<pb::table::DataFragment> Finish();

 private:
  object_store::ObjectStore& store_;
  const std::string table_;
  const std::string file_name_;
  const Schema schema_;
  const FileVersion version_;
  std::unique_ptr<FileWriter> writer_;
};

}  // namespace sarissa::lance
