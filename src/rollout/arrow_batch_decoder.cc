#include "rollout/arrow_batch_decoder.h"

#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "env/bounded_memory_pool.h"
#include "env/mapped_range.h"
#include "rollout/arrow_columns.h"
#include "rollout/record_columns.h"
#include "rollout/record_defaults.h"
#include "rollout/record_fields.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {
namespace {

// A list of structs of dictionaries is the deepest column there is.
constexpr int kMaxTypeDepth = 4;
// {"id":"","rollout_id":""}, the shortest record.
constexpr int64_t kShortestRecordBytes = 26;
// What a row takes in the columns of the append (offsets, fixed values, the id of the answer), and
// in steps of how much it is charged.
constexpr int64_t kRowBytes = 320;
constexpr int64_t kChargeStep = 1 << 20;
// Offsets of utf8 columns are 32 bits.
constexpr int64_t kMaxValueBytes = (int64_t{1} << 31) - 1;

class StreamDecoder {
 public:
  explicit StreamDecoder(const ArrowDecodeOptions& options)
      : options_(options),
        max_value_bytes_(std::min(options.max_bytes, kMaxValueBytes)),
        pool_(options.max_bytes, options.charge) {}

  Status Decode(const std::shared_ptr<arrow::Buffer>& body);
  Result<DecodedAppend> Finish();

 private:
  using Columns = std::array<std::unique_ptr<ArrowColumn>, kColumnCount>;

  Status CheckSchema(const arrow::Schema& schema);
  Status ReadBatch(const arrow::RecordBatch& batch);
  Status ReadRow(const Columns& columns, int64_t row);
  Status ReadCell(const Columns& columns, Column column, int64_t row);
  // The columns of the append grow by a row that holds this many bytes of values.
  Status Count(int64_t value_bytes);
  // What Arrow says of the stream, or why the pool refused it memory.
  Status StreamError(const Status& status) const;

  const ArrowDecodeOptions& options_;
  const int64_t max_value_bytes_;
  env::BoundedMemoryPool pool_;
  std::array<int, kColumnCount> places_{};  // of each column in the stream, -1 for none
  RecordColumns columns_;
  DecodedAppend result_;
  int64_t batch_ = 0;
  int64_t value_bytes_ = 0;
  int64_t grown_ = 0;
  int64_t charged_ = 0;
};

Status StreamDecoder::StreamError(const Status& status) const {
  if (!pool_.refusal().ok() && KindOf(pool_.refusal()) != ErrorKind::kInvalid) {
    return pool_.refusal();
  }
  return Error(ErrorKind::kInvalid, "the Arrow stream, batch {}: {}", batch_, status.message());
}

Status StreamDecoder::CheckSchema(const arrow::Schema& schema) {
  places_.fill(-1);
  for (int i = 0; i < schema.num_fields(); ++i) {
    const arrow::Field& field = *schema.field(i);
    const std::optional<Column> column = FindColumn(field.name());
    if (!column.has_value()) {
      return Error(ErrorKind::kInvalid, "column '{}': a record has no such field", field.name());
    }
    int& place = places_[static_cast<size_t>(*column)];
    if (place >= 0) return Error(ErrorKind::kInvalid, "column '{}': is there twice", field.name());
    place = i;
    const Status status = CheckArrowType(*column, *field.type());
    if (!status.ok()) {
      return Error(KindOf(status), "column '{}': {}", field.name(), status.message());
    }
  }
  for (const Column column : {kId, kRolloutId}) {
    if (places_[column] < 0) {
      return Error(ErrorKind::kInvalid, "column '{}': missing required column",
                   RecordSchema()->field(column)->name());
    }
  }
  return Status::OK();
}

Status StreamDecoder::Count(int64_t value_bytes) {
  value_bytes_ += value_bytes;
  if (value_bytes_ > max_value_bytes_) {
    return Error(ErrorKind::kInvalid, "the values of the rows so far take more than {} bytes",
                 max_value_bytes_);
  }
  // Builders grow by doubling.
  grown_ += kRowBytes + 2 * value_bytes;
  if (grown_ <= charged_ || options_.charge == nullptr) return Status::OK();
  const int64_t more = std::max(grown_ - charged_, kChargeStep);
  charged_ += more;
  return options_.charge(more);
}

Status StreamDecoder::ReadCell(const Columns& columns, Column column, int64_t row) {
  const ArrowColumn* values = columns[static_cast<size_t>(column)].get();
  if (values == nullptr || values->IsNull(row)) {
    return AppendDefault(columns_, column, options_.now);
  }
  if (column == kBinaryPayload) {
    result_.payload_bytes += static_cast<uint64_t>(values->Bytes(row));
  }
  return values->Append(row, columns_);
}

Status StreamDecoder::ReadRow(const Columns& columns, int64_t row) {
  int64_t value_bytes = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == nullptr || columns[i]->IsNull(row)) continue;
    const int64_t bytes = columns[i]->Bytes(row);
    // Before the row: a large payload is a batch of its own.
    if (i == kBinaryPayload && bytes >= env::kMapThresholdBytes) {
      ARROW_RETURN_NOT_OK(columns_.Cut());
    }
    value_bytes += bytes;
  }
  Status status = Count(value_bytes);
  if (!status.ok())
    return Error(KindOf(status), "batch {}, row {}: {}", batch_, row, status.message());
  for (int i = 0; i < kColumnCount; ++i) {
    status = ReadCell(columns, static_cast<Column>(i), row);
    if (status.ok()) continue;
    const bool item = status.message().starts_with('[');
    return Error(KindOf(status), "batch {}, row {}: {}{}{}", batch_, row,
                 RecordSchema()->field(i)->name(), item ? "" : ": ", status.message());
  }
  result_.ids.emplace_back(columns_.LastText(kId));
  return columns_.FinishRow();
}

Status StreamDecoder::ReadBatch(const arrow::RecordBatch& batch) {
  const Status valid = batch.ValidateFull();
  if (!valid.ok()) return StreamError(valid);
  const int64_t max_rows = options_.max_bytes / kShortestRecordBytes;
  if (batch.num_rows() > max_rows - static_cast<int64_t>(result_.ids.size())) {
    return Error(ErrorKind::kInvalid, "batch {}: {} rows after {}; at most {} are accepted", batch_,
                 batch.num_rows(), result_.ids.size(), max_rows);
  }
  Columns columns;
  for (int i = 0; i < kColumnCount; ++i) {
    const auto at = static_cast<size_t>(i);
    if (places_[at] < 0) continue;
    columns[at] = ArrowColumn::Make(static_cast<Column>(i), batch.column(places_[at]));
  }
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    ARROW_RETURN_NOT_OK(ReadRow(columns, row));
  }
  return Status::OK();
}

// Arrow takes an early end of the bytes for the end of the stream; only the marker tells a whole
// body from one that was cut off.
Status CheckEnd(const arrow::Buffer& body, int64_t end) {
  constexpr std::array<uint8_t, 8> kMarker = {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0};
  const auto size = static_cast<int64_t>(kMarker.size());
  if (end < size || std::memcmp(body.data() + end - size, kMarker.data(), kMarker.size()) != 0) {
    return Error(ErrorKind::kInvalid, "the Arrow stream has no end-of-stream marker");
  }
  if (end == body.size()) return Status::OK();
  return Error(ErrorKind::kInvalid, "{} bytes after the end of the Arrow stream",
               body.size() - end);
}

Status StreamDecoder::Decode(const std::shared_ptr<arrow::Buffer>& body) {
  arrow::ipc::IpcReadOptions read = arrow::ipc::IpcReadOptions::Defaults();
  read.max_recursion_depth = kMaxTypeDepth;
  read.memory_pool = &pool_;
  read.use_threads = false;
  read.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  const auto input = std::make_shared<arrow::io::BufferReader>(body);
  const auto reader = arrow::ipc::RecordBatchStreamReader::Open(input, read);
  if (!reader.ok()) {
    return Error(ErrorKind::kInvalid, "the body is not an Arrow stream: {}",
                 reader.status().message());
  }
  ARROW_RETURN_NOT_OK(CheckSchema(*(*reader)->schema()));
  for (;; ++batch_) {
    std::shared_ptr<arrow::RecordBatch> batch;
    const Status status = (*reader)->ReadNext(&batch);
    if (!status.ok()) return StreamError(status);
    if (batch == nullptr) break;
    ARROW_RETURN_NOT_OK(ReadBatch(*batch));
  }
  ARROW_ASSIGN_OR_RAISE(const int64_t end, input->Tell());
  ARROW_RETURN_NOT_OK(CheckEnd(*body, end));
  if (result_.ids.empty()) return Error(ErrorKind::kInvalid, "the Arrow stream has no rows");
  return Status::OK();
}

Result<DecodedAppend> StreamDecoder::Finish() {
  ARROW_ASSIGN_OR_RAISE(result_.batches, columns_.Finish());
  return std::move(result_);
}

}  // namespace

Result<DecodedAppend> DecodeArrowAppend(const std::shared_ptr<arrow::Buffer>& body,
                                        const ArrowDecodeOptions& options) {
  StreamDecoder decoder(options);
  ARROW_RETURN_NOT_OK(decoder.Decode(body));
  return decoder.Finish();
}

}  // namespace sarissa::rollout
