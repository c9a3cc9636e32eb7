#include "memwal/log_entry.h"

#include <arrow/device.h>
#include <arrow/io/interfaces.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "env/bounded_memory_pool.h"
#include "env/mapped_range.h"

namespace sarissa::memwal {
namespace {

constexpr char kMagic[4] = {'S', 'R', 'S', 'L'};
constexpr uint16_t kTrailerVersion = 1;
constexpr char kEpochKey[] = "writer_epoch";
constexpr char kSentinelKey[] = "fence_sentinel";
constexpr char kTornBelowKey[] = "sarissa_torn_below";
constexpr char kGenerationKey[] = "generation";
// Small writes are joined up to here, large buffers go to the sink in pieces of this size.
constexpr int64_t kPieceBytes = 1 << 20;
// Entries of other writers may be compressed, and such a buffer says itself how long it becomes:
// LZ4 makes at most 255 bytes of one.
constexpr int64_t kMaxExpansion = 255;

std::shared_ptr<arrow::KeyValueMetadata> EpochMetadata(Epoch epoch) {
  return arrow::key_value_metadata({kEpochKey}, {fmt::format("{}", epoch)});
}

// What Arrow's IPC writer writes to: joins small pieces, keeps the checksum, streams large buffers
// through.
class EntryStream final : public arrow::io::OutputStream {
 public:
  explicit EntryStream(object_store::ObjectWriter& sink) : sink_(sink) {}

  Status Write(const void* data, int64_t size) override {
    if (pending_.size() + static_cast<size_t>(size) > static_cast<size_t>(kPieceBytes))
      ARROW_RETURN_NOT_OK(FlushPending());
    if (size >= kPieceBytes)
      return Emit({static_cast<const uint8_t*>(data), static_cast<size_t>(size)});
    pending_.append(static_cast<const char*>(data), static_cast<size_t>(size));
    written_ += size;
    return Status::OK();
  }

  Status Write(const std::shared_ptr<arrow::Buffer>& buffer) override {
    if (buffer->size() < kPieceBytes) return Write(buffer->data(), buffer->size());
    ARROW_RETURN_NOT_OK(FlushPending());
    for (int64_t offset = 0; offset < buffer->size(); offset += kPieceBytes) {
      const int64_t size = std::min(kPieceBytes, buffer->size() - offset);
      ARROW_RETURN_NOT_OK(Emit({buffer->data() + offset, static_cast<size_t>(size)}));
      env::ReleaseMappedPages(*buffer, offset, size);
    }
    return Status::OK();
  }
  using arrow::io::OutputStream::Write;

  Status FlushPending() {
    if (pending_.empty()) return Status::OK();
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(pending_.data()),
                                         pending_.size());
    crc_ = Crc32c(bytes, crc_);
    ARROW_RETURN_NOT_OK(sink_.Append(bytes));
    pending_.clear();
    return Status::OK();
  }

  Status Close() override {
    closed_ = true;
    return Status::OK();
  }
  bool closed() const override { return closed_; }
  Result<int64_t> Tell() const override { return written_; }
  std::string& pending() { return pending_; }
  uint32_t crc() const { return crc_; }
  int64_t written() const { return written_; }

 private:
  Status Emit(std::span<const uint8_t> bytes) {
    crc_ = Crc32c(bytes, crc_);
    written_ += static_cast<int64_t>(bytes.size());
    return sink_.Append(bytes);
  }

  object_store::ObjectWriter& sink_;
  std::string pending_;
  int64_t written_ = 0;
  uint32_t crc_ = 0;
  bool closed_ = false;
};

Status WriteTrailer(const LogEntryHeader& header, EntryStream& stream,
                    object_store::ObjectWriter& sink) {
  std::string trailer(kMagic, sizeof kMagic);
  AppendLittleEndian(trailer, kTrailerVersion);
  AppendLittleEndian(trailer, uint16_t{0});
  AppendLittleEndian(trailer, header.generation.value());
  AppendLittleEndian(trailer, header.nonce);
  AppendLittleEndian(trailer, static_cast<uint64_t>(stream.written()));
  AppendLittleEndian(trailer, uint32_t{0});
  stream.pending() += trailer;
  std::string& pending = stream.pending();
  const uint32_t crc =
      Crc32c({reinterpret_cast<const uint8_t*>(pending.data()), pending.size()}, stream.crc());
  AppendLittleEndian(pending, crc);
  return sink.Append({reinterpret_cast<const uint8_t*>(pending.data()), pending.size()});
}

Result<uint64_t> ParseNumber(const std::string& name, const char* key, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error(ErrorKind::kCorrupt, "{}: schema metadata {} is '{}', not a number", name, key,
                 text);
  }
  return value;
}

Status CheckTrailer(const std::string& name, const arrow::Buffer& bytes,
                    const LogTrailer& trailer) {
  if (trailer.stream_bytes + static_cast<uint64_t>(kLogTrailerBytes) !=
      static_cast<uint64_t>(bytes.size())) {
    return Error(ErrorKind::kCorrupt, "{}: the trailer counts {} bytes, the object has {}", name,
                 trailer.stream_bytes + kLogTrailerBytes, bytes.size());
  }
  uint32_t crc = 0;
  const int64_t covered = bytes.size() - 4;
  for (int64_t offset = 0; offset < covered; offset += kPieceBytes) {
    const int64_t size = std::min(kPieceBytes, covered - offset);
    crc = Crc32c({bytes.data() + offset, static_cast<size_t>(size)}, crc);
    env::ReleaseMappedPages(bytes, offset, size);
  }
  const uint32_t stored = LoadLittleEndian<uint32_t>(bytes.data() + covered);
  if (crc != stored) {
    return Error(ErrorKind::kCorrupt, "{}: checksum {:08x}, the trailer says {:08x}", name, crc,
                 stored);
  }
  return Status::OK();
}

// Arrow's reader takes an early end of file for the end of the stream; only the marker tells a
// whole entry from a torn one.
Status CheckEndOfStream(const std::string& name, const arrow::Buffer& stream) {
  constexpr uint8_t kEndOfStream[8] = {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0};
  const int64_t size = stream.size();
  if (size >= 8 && std::memcmp(stream.data() + size - 8, kEndOfStream, 8) == 0) return Status::OK();
  return Error(ErrorKind::kCorrupt, "{}: {} bytes without an end-of-stream marker: torn", name,
               size);
}

Result<DecodedLogEntry> DecodeStream(const std::string& name,
                                     const std::shared_ptr<arrow::Buffer>& bytes) {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  // Outlives what it gives out: batches that hold such memory are copied.
  env::BoundedMemoryPool pool(bytes->size() * kMaxExpansion);
  options.memory_pool = &pool;
  auto input = std::make_shared<arrow::io::BufferReader>(bytes);
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(input, options));
  DecodedLogEntry entry;
  const auto& metadata = reader->schema()->metadata();
  const auto epoch = metadata == nullptr ? Result<std::string>(Status::KeyError("none"))
                                         : metadata->Get(kEpochKey);
  if (!epoch.ok())
    return Error(ErrorKind::kCorrupt, "{}: schema metadata has no {}", name, kEpochKey);
  ARROW_ASSIGN_OR_RAISE(const uint64_t number, ParseNumber(name, kEpochKey, *epoch));
  entry.epoch = Epoch(number);
  if (const auto sentinel = metadata->Get(kSentinelKey); sentinel.ok())
    entry.sentinel = *sentinel == "true";
  if (const auto below = metadata->Get(kTornBelowKey); entry.sentinel && below.ok()) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t position, ParseNumber(name, kTornBelowKey, *below));
    entry.passed_over = LogPosition(position);
  }
  if (const auto generation = metadata->Get(kGenerationKey); generation.ok()) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t value, ParseNumber(name, kGenerationKey, *generation));
    entry.generation = Generation(value);
  }
  for (;;) {
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
    if (batch == nullptr) break;
    ARROW_RETURN_NOT_OK(batch->ValidateFull());
    if (pool.bytes_allocated() > 0) {
      ARROW_ASSIGN_OR_RAISE(batch, batch->CopyTo(arrow::default_cpu_memory_manager()));
    }
    if (batch->num_rows() > 0) entry.batches.push_back(std::move(batch));
  }
  return entry;
}

}  // namespace

Status WriteLogEntry(const LogEntryHeader& header,
                     const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                     object_store::ObjectWriter& sink) {
  SARISSA_CHECK(!batches.empty(), "a log entry holds rows");
  EntryStream stream(sink);
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  const auto schema = batches.front()->schema()->WithMetadata(EpochMetadata(header.epoch));
  ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeStreamWriter(&stream, schema, options));
  for (const auto& batch : batches) {
    ARROW_RETURN_NOT_OK(
        writer->WriteRecordBatch(*batch->ReplaceSchemaMetadata(schema->metadata())));
  }
  ARROW_RETURN_NOT_OK(writer->Close());
  return WriteTrailer(header, stream, sink);
}

Result<std::string> EncodeSentinel(Epoch epoch, std::optional<LogPosition> passed_over) {
  const auto metadata = arrow::key_value_metadata({kEpochKey, kSentinelKey},
                                                  {fmt::format("{}", epoch), std::string("true")});
  if (passed_over) metadata->Append(kTornBelowKey, fmt::format("{}", *passed_over));
  ARROW_ASSIGN_OR_RAISE(auto out, arrow::io::BufferOutputStream::Create());
  ARROW_ASSIGN_OR_RAISE(auto writer,
                        arrow::ipc::MakeStreamWriter(out, arrow::schema({}, metadata)));
  ARROW_RETURN_NOT_OK(writer->Close());
  ARROW_ASSIGN_OR_RAISE(auto buffer, out->Finish());
  return buffer->ToString();
}

bool IsTornLogEntry(const std::shared_ptr<arrow::Buffer>& bytes) {
  const std::span<const uint8_t> all(bytes->data(), static_cast<size_t>(bytes->size()));
  if (std::all_of(all.begin(), all.end(), [](uint8_t byte) { return byte == 0; })) return true;
  const auto trailer = ParseLogTrailer(all);
  if (trailer && trailer->stream_bytes + kLogTrailerBytes == all.size()) return false;
  if (CheckEndOfStream("", *bytes).ok()) return false;
  // Walks the messages: a torn entry runs out of bytes in one of them, or in the trailer.
  arrow::io::BufferReader input(bytes);
  for (;;) {
    const auto message = arrow::ipc::ReadMessage(&input);
    const auto at = input.Tell();
    if (!at.ok()) return false;
    const int64_t rest = bytes->size() - *at;
    if (!message.ok()) return rest == 0;
    if (*message != nullptr) continue;
    // The end-of-stream marker, or the end of the bytes where a message would begin.
    const auto tail = all.subspan(static_cast<size_t>(*at));
    const size_t magic = std::min(tail.size(), sizeof kMagic);
    return rest < kLogTrailerBytes && std::memcmp(tail.data(), kMagic, magic) == 0;
  }
}

std::optional<LogTrailer> ParseLogTrailer(std::span<const uint8_t> last_bytes) {
  if (last_bytes.size() < static_cast<size_t>(kLogTrailerBytes)) return std::nullopt;
  const uint8_t* data = last_bytes.data() + last_bytes.size() - kLogTrailerBytes;
  if (std::memcmp(data, kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (LoadLittleEndian<uint16_t>(data + 4) != kTrailerVersion) return std::nullopt;
  LogTrailer trailer;
  trailer.generation = Generation(LoadLittleEndian<uint64_t>(data + 8));
  trailer.nonce = LoadLittleEndian<uint64_t>(data + 16);
  trailer.stream_bytes = LoadLittleEndian<uint64_t>(data + 24);
  return trailer;
}

Result<DecodedLogEntry> DecodeLogEntry(const std::string& name,
                                       const std::shared_ptr<arrow::Buffer>& bytes) {
  if (bytes->size() == 0)
    return Error(ErrorKind::kCorrupt, "{}: the log entry has zero bytes", name);
  const auto trailer = ParseLogTrailer({bytes->data(), static_cast<size_t>(bytes->size())});
  std::shared_ptr<arrow::Buffer> stream = bytes;
  if (trailer) {
    ARROW_RETURN_NOT_OK(CheckTrailer(name, *bytes, *trailer));
    stream = arrow::SliceBuffer(bytes, 0, static_cast<int64_t>(trailer->stream_bytes));
  }
  ARROW_RETURN_NOT_OK(CheckEndOfStream(name, *stream));
  auto entry = DecodeStream(name, stream);
  if (!entry.ok())
    return MakeError(ErrorKind::kCorrupt, fmt::format("{}: {}", name, entry.status().message()));
  if (trailer) entry->generation = trailer->generation;
  return entry;
}

}  // namespace sarissa::memwal
