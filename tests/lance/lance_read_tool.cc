// Writes the columns of a Lance data file as an Arrow IPC file, by the file's own schema:
//   lance_read_tool FILE.lance OUT.arrow [--rows FIRST:END] [--take I,J,K] [--batch ROWS] [--time
//   N]
// and for many files at once, one request a line on standard input, one "ok" or error a line on
// standard output:
//   lance_read_tool --serve
// Exit code 1 and the error on standard error when a file cannot be read.
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "lance/file/file_reader.h"
#include "tests/lance/memory_object.h"

namespace sarissa::lance {
namespace {

struct Request {
  std::string input;
  std::string output;
  uint64_t first = 0;
  uint64_t end = UINT64_MAX;
  uint64_t batch = UINT64_MAX;
  bool has_take = false;
  std::vector<uint64_t> take;
  int time = 0;
};

Result<Request> Parse(const std::vector<std::string>& words) {
  Request request;
  std::vector<std::string> files;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].rfind("--", 0) != 0) {
      files.push_back(words[i]);
      continue;
    }
    if (i + 1 == words.size()) return Error(ErrorKind::kInvalid, "{} needs a value", words[i]);
    const std::string& value = words[i + 1];
    if (words[i] == "--rows") {
      const size_t colon = value.find(':');
      if (colon == std::string::npos) return Error(ErrorKind::kInvalid, "--rows {}", value);
      request.first = std::stoull(value.substr(0, colon));
      request.end = std::stoull(value.substr(colon + 1));
    } else if (words[i] == "--take") {
      request.has_take = true;
      std::stringstream list(value);
      for (std::string part; std::getline(list, part, ',');) {
        request.take.push_back(std::stoull(part));
      }
    } else if (words[i] == "--batch") {
      request.batch = std::stoull(value);
    } else if (words[i] == "--time") {
      request.time = std::stoi(value);
    } else {
      return Error(ErrorKind::kInvalid, "unknown option {}", words[i]);
    }
    ++i;
  }
  if (files.size() != 2) return Error(ErrorKind::kInvalid, "two file names are needed");
  request.input = files[0];
  request.output = files[1];
  return request;
}

Result<std::shared_ptr<MemoryObject>> Load(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
  ARROW_ASSIGN_OR_RAISE(const int64_t size, file->GetSize());
  ARROW_ASSIGN_OR_RAISE(auto bytes, file->Read(size));
  return std::make_shared<MemoryObject>(path, std::move(bytes));
}

Status Time(const FileReader& reader, const std::vector<ColumnRequest>& columns, uint64_t rows,
            int rounds) {
  for (const ColumnRequest& column : columns) {
    uint64_t bytes = 0;
    for (const int32_t leaf : column.leaf_columns) {
      ARROW_ASSIGN_OR_RAISE(const uint64_t of_leaf, reader.ColumnBytes(leaf));
      bytes += of_leaf;
    }
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) {
      ARROW_RETURN_NOT_OK(
          reader.Read(std::span<const ColumnRequest>(&column, 1), 0, rows).status());
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%s: %.3f ms, %.3f GB/s of file bytes, %.1f M rows/s\n",
                column.field->name().c_str(), took.count() / rounds * 1e3,
                static_cast<double>(bytes) * rounds / took.count() / 1e9,
                static_cast<double>(rows) * rounds / took.count() / 1e6);
  }
  return Status::OK();
}

Status Run(const Request& request) {
  ARROW_ASSIGN_OR_RAISE(auto object, Load(request.input));
  ARROW_ASSIGN_OR_RAISE(auto reader, FileReader::Open(object));
  ARROW_ASSIGN_OR_RAISE(const auto columns, reader->AllColumns());
  if (request.time > 0) return Time(*reader, columns, reader->num_rows(), request.time);
  ARROW_ASSIGN_OR_RAISE(auto out, arrow::io::FileOutputStream::Open(request.output));
  std::vector<std::shared_ptr<arrow::Field>> fields;
  for (const ColumnRequest& column : columns) fields.push_back(column.field);
  const auto writer_schema = arrow::schema(fields);
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.unify_dictionaries = true;
  options.use_threads = false;
  ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeFileWriter(out, writer_schema, options));
  if (request.has_take) {
    ARROW_ASSIGN_OR_RAISE(auto batch, reader->Take(columns, request.take));
    ARROW_RETURN_NOT_OK(batch->Validate());
    ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*batch));
  } else {
    const uint64_t end = std::min(request.end, reader->num_rows());
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    for (uint64_t at = request.first; at < end;) {
      const uint64_t count = std::min(request.batch, end - at);
      ARROW_ASSIGN_OR_RAISE(auto batch, reader->Read(columns, at, count));
      ARROW_RETURN_NOT_OK(batch->ValidateFull());
      batches.push_back(std::move(batch));
      at += count;
    }
    ARROW_ASSIGN_OR_RAISE(auto table, arrow::Table::FromRecordBatches(writer_schema, batches));
    ARROW_RETURN_NOT_OK(writer->WriteTable(*table));
  }
  ARROW_RETURN_NOT_OK(writer->Close());
  return out->Close();
}

std::string OneLine(const Status& status) {
  std::string text = fmt::format("{}: {}", ErrorKindName(KindOf(status)), status.message());
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Status ParseAndRun(const std::vector<std::string>& words) {
  ARROW_ASSIGN_OR_RAISE(const Request request, Parse(words));
  return Run(request);
}

int Serve() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::stringstream parts(line);
    for (std::string word; std::getline(parts, word, '\t');) words.push_back(word);
    const Status status = ParseAndRun(words);
    std::cout << (status.ok() ? "ok" : OneLine(status)) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace sarissa::lance

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "--serve") return sarissa::lance::Serve();
  const sarissa::Status status = sarissa::lance::ParseAndRun(words);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", sarissa::lance::OneLine(status).c_str());
  return 1;
}
