// Writes an Arrow IPC stream or file as a Lance data file, for tests against other implementations.
//
//   lance_file_tool write IN.arrow OUT.lance [--version 2.1] [--page-bytes N] [--batch-rows N]
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "env/posix/posix_file_system.h"
#include "env/posix/posix_random.h"
#include "lance/file/file_writer.h"
#include "object_store/local_store.h"

namespace sarissa::lance {
namespace {

struct Input {
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
};

Result<Input> ReadArrow(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
  Input input;
  ARROW_ASSIGN_OR_RAISE(auto magic, file->ReadAt(0, 6));
  if (magic->ToString() == "ARROW1") {
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file));
    input.schema = reader->schema();
    for (int i = 0; i < reader->num_record_batches(); ++i) {
      ARROW_ASSIGN_OR_RAISE(auto batch, reader->ReadRecordBatch(i));
      input.batches.push_back(std::move(batch));
    }
    return input;
  }
  ARROW_RETURN_NOT_OK(file->Seek(0));
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(file));
  input.schema = reader->schema();
  ARROW_ASSIGN_OR_RAISE(input.batches, reader->ToRecordBatches());
  return input;
}

Status WriteLance(const std::string& in, const std::string& out,
                  const std::map<std::string, std::string>& flags) {
  FileWriterOptions options;
  int64_t batch_rows = 1 << 20;
  for (const auto& [flag, value] : flags) {
    if (flag == "--version") {
      ARROW_ASSIGN_OR_RAISE(options.version, FileVersion::Parse(value));
    } else if (flag == "--page-bytes") {
      options.page_bytes = std::strtoll(value.c_str(), nullptr, 10);
    } else if (flag == "--batch-rows") {
      batch_rows = std::strtoll(value.c_str(), nullptr, 10);
    } else {
      return Error(ErrorKind::kInvalid, "unknown flag {}", flag);
    }
  }
  ARROW_ASSIGN_OR_RAISE(Input input, ReadArrow(in));
  ARROW_ASSIGN_OR_RAISE(Schema schema, Schema::FromArrow(*input.schema));
  const auto path = std::filesystem::absolute(out);
  env::PosixFileSystem file_system;
  env::PosixRandom random;
  ARROW_ASSIGN_OR_RAISE(
      auto store, object_store::LocalStore::Open(file_system, random, path.parent_path().string()));
  ARROW_ASSIGN_OR_RAISE(auto sink, store->Create(path.filename().string()));
  ARROW_ASSIGN_OR_RAISE(auto writer, FileWriter::Make(std::move(sink), std::move(schema), options));
  for (const auto& batch : input.batches) {
    for (int64_t row = 0; row < batch->num_rows(); row += batch_rows) {
      ARROW_RETURN_NOT_OK(writer->Write(*batch->Slice(row, batch_rows)));
    }
  }
  ARROW_ASSIGN_OR_RAISE(FileSummary summary, writer->Finish(object_store::PutMode::kOverwrite));
  fmt::print("{} rows, {} bytes, {} columns\n", summary.rows, summary.size_bytes, summary.columns);
  return Status::OK();
}

int Main(int argc, char** argv) {
  if (argc < 4 || argc % 2 != 0 || std::string(argv[1]) != "write") {
    fmt::print(stderr,
               "usage: lance_file_tool write IN.arrow OUT.lance [--version V] [--page-bytes N] "
               "[--batch-rows N]\n");
    return 2;
  }
  std::map<std::string, std::string> flags;
  for (int i = 4; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  const Status status = WriteLance(argv[2], argv[3], flags);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.ToString());
  return 1;
}

}  // namespace
}  // namespace sarissa::lance

int main(int argc, char** argv) {
  return sarissa::lance::Main(argc, argv);
}
