// One log entry: an Arrow IPC stream (schema, batches, end-of-stream marker) and after it a trailer
// of ours.
//
// Schema metadata of an entry that may be replayed holds `writer_epoch` and nothing else: the
// original compares the entry's schema with its memtable's and refuses any other key. Our
// generation mark, a nonce that recognises our own bytes after a lost answer, and a CRC32C over
// everything before it live in the trailer, which other readers never look at. An entry without a
// trailer (the original's) is unverified, not refused. A sentinel has an empty schema,
// `writer_epoch` and `fence_sentinel`="true", and no batches.
//
// Trailer, 40 bytes, little-endian: "SRSL" · u16 version 1 · u16 0 · u64 generation · u64 nonce ·
// u64 bytes before the trailer · u32 0 · u32 CRC32C of all bytes of the object before this word.
#pragma once

#include <arrow/buffer.h>
#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/strong_type.h"
#include "object_store/object_store.h"

namespace sarissa::memwal {

inline constexpr int64_t kLogTrailerBytes = 40;

struct LogTrailer {
  Generation generation;
  uint64_t nonce = 0;
  uint64_t stream_bytes = 0;
};

struct LogEntryHeader {
  Epoch epoch;
  Generation generation;
  uint64_t nonce = 0;
};

// Writes the entry to `sink`, piece by piece: mapped payloads are not copied into memory. `batches`
// is not empty.
Status WriteLogEntry(const LogEntryHeader& header,
                     const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                     object_store::ObjectWriter& sink);
// `passed_over`: the torn entry right below, which this claim found to be the log's last; later
// replays pass over it too. Written as the schema metadata key `sarissa_torn_below`, which other
// readers tolerate on a sentinel.
Result<std::string> EncodeSentinel(Epoch epoch, std::optional<LogPosition> passed_over = {});

struct DecodedLogEntry {
  Epoch epoch;
  bool sentinel = false;
  std::optional<LogPosition> passed_over;  // of a sentinel: see EncodeSentinel
  // Ours from the trailer, pylance's from the `generation` metadata, none for the original.
  std::optional<Generation> generation;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;  // share the object's buffer
};

// kCorrupt names the object and what is wrong. `bytes` may be a mapping; its pages are given back
// after the checksum.
Result<DecodedLogEntry> DecodeLogEntry(const std::string& name,
                                       const std::shared_ptr<arrow::Buffer>& bytes);

// True if `bytes` are the beginning of an entry and end before it does (or are all zero): what is
// left of a put that never finished in a store whose puts are not atomic. A whole entry with
// flipped bits is not torn.
bool IsTornLogEntry(const std::shared_ptr<arrow::Buffer>& bytes);

// The trailer at the end of an object, if it is one of ours.
std::optional<LogTrailer> ParseLogTrailer(std::span<const uint8_t> last_bytes);

}  // namespace sarissa::memwal
