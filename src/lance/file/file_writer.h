// Writes one Lance data file, version 2.1 or 2.2.
//
// Buffers incoming batches per column and emits pages as they fill (8 MiB of values, or earlier
// where level counts demand it), so memory is bounded by the page size, not by the file. Values of
// env::kMapThresholdBytes and more are copied from their (mapped) buffers straight to the sink,
// piece by piece, without an intermediate copy. One thread at a time. The file exists only after
// Finish; a writer destroyed before leaves nothing behind.
//
// Encodings written: mini-block (flat, variable), full-zip (variable, fixed), constant; levels
// flat(16). Nullability layers are declared maximally for nullable fields, on every page of a
// column alike: the format's readers lose or invent rows when pages of a column disagree.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lance/file/file_version.h"
#include "lance/file/schema.h"
#include "object_store/object_store.h"

namespace sarissa::lance {

struct FileWriterOptions {
  FileVersion version = kFileV21;
  // A page is closed when its values reach this many bytes.
  int64_t page_bytes = 8 << 20;
  // Metadata of the schema inside the file (index files carry "batch_size").
  std::map<std::string, std::string> schema_metadata;
};

struct FileSummary {
  uint64_t rows = 0;
  uint64_t size_bytes = 0;
  // Column index of each leaf, in the schema's leaf order: 0, 1, 2 ...
  int32_t columns = 0;
};

class FileWriter {
 public:
  virtual ~FileWriter() = default;
  // `sink` is a new object; `schema` the columns of every batch that follows, in order. Dictionary
  // columns may come with a different dictionary in each batch.
  static Result<std::unique_ptr<FileWriter>> Make(std::unique_ptr<object_store::ObjectWriter> sink,
                                                  Schema schema, FileWriterOptions options);
  // kInvalid when the batch does not fit the schema (a null in a not-null column included); the
  // writer is unusable after any error.
  virtual Status Write(const arrow::RecordBatch& batch) = 0;
  // Writes what is left and the file's tail, makes the object durable.
  virtual Result<FileSummary> Finish(object_store::PutMode mode) = 0;
};

}  // namespace sarissa::lance
