#include "memwal/shard_log.h"

#include <algorithm>

#include "base/sync_point.h"
#include "memwal/names.h"

namespace sarissa::memwal {
namespace {

constexpr int kSentinelTries = 1024;

}  // namespace

ShardLog::Attempt ShardLog::Append(
    LogPosition position, const LogEntryHeader& header,
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  SARISSA_SYNC_POINT("log.before_put");
  auto writer = store_.Create(LogEntryName(table_, shard_, position));
  if (!writer.ok()) return {Outcome::kAbsent, writer.status()};
  const Status encoded = WriteLogEntry(header, batches, **writer);
  if (!encoded.ok()) return {Outcome::kAbsent, encoded};
  Status finished = (*writer)->Finish(object_store::PutMode::kIfAbsent);
  SARISSA_SYNC_POINT("log.after_put");
  if (finished.ok()) return {Outcome::kLanded, Status::OK()};
  return Settle(position, header.nonce, std::move(finished));
}

ShardLog::Attempt ShardLog::Settle(LogPosition position, uint64_t nonce, Status cause) {
  const auto reader = store_.Open(LogEntryName(table_, shard_, position));
  if (!reader.ok()) {
    if (Is(reader.status(), ErrorKind::kNotFound)) {
      // Somebody else's, and cleaned up since.
      const bool was_there = Is(cause, ErrorKind::kAlreadyExists);
      return {was_there ? Outcome::kTaken : Outcome::kAbsent, std::move(cause)};
    }
    return {Outcome::kUnknown, std::move(cause)};
  }
  const uint64_t size = (*reader)->size();
  if (size < static_cast<uint64_t>(kLogTrailerBytes)) return {Outcome::kTaken, std::move(cause)};
  const auto tail = (*reader)->ReadRange(size - kLogTrailerBytes, kLogTrailerBytes);
  if (!tail.ok()) return {Outcome::kUnknown, std::move(cause)};
  const auto trailer = ParseLogTrailer({(*tail)->data(), static_cast<size_t>((*tail)->size())});
  if (!trailer || trailer->nonce != nonce) return {Outcome::kTaken, std::move(cause)};
  if (!Is(cause, ErrorKind::kAlreadyExists)) return {Outcome::kUnproven, std::move(cause)};
  return {Outcome::kLanded, Status::OK()};
}

Result<LogPosition> ShardLog::PutSentinel(Epoch epoch, LogPosition from,
                                          std::optional<LogPosition> passed_over) {
  ARROW_ASSIGN_OR_RAISE(const std::string sentinel, EncodeSentinel(epoch, passed_over));
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(sentinel.data()),
                                       sentinel.size());
  LogPosition position = from;
  for (int tries = 0; tries < kSentinelTries; ++tries) {
    const Status put =
        store_.Put(LogEntryName(table_, shard_, position), bytes, object_store::PutMode::kIfAbsent);
    if (put.ok()) return position;
    // After a lost answer the slot may hold this very sentinel; one more at the next position does
    // no harm.
    if (!Is(put, ErrorKind::kAlreadyExists) && !Is(put, ErrorKind::kOutcomeUnknown)) return put;
    if (Is(put, ErrorKind::kOutcomeUnknown)) {
      const auto head = store_.Head(LogEntryName(table_, shard_, position));
      if (!head.ok()) return put;
    }
    position = position.Next();
  }
  return Error(ErrorKind::kConflict, "no free log position for a sentinel after {} tries from {}",
               kSentinelTries, from);
}

Result<std::optional<DecodedLogEntry>> ShardLog::Read(LogPosition position) {
  const std::string name = LogEntryName(table_, shard_, position);
  const auto reader = store_.Open(name);
  if (!reader.ok()) {
    if (Is(reader.status(), ErrorKind::kNotFound)) return std::optional<DecodedLogEntry>();
    return reader.status();
  }
  ARROW_ASSIGN_OR_RAISE(auto bytes, (*reader)->ReadRange(0, (*reader)->size()));
  ARROW_ASSIGN_OR_RAISE(DecodedLogEntry entry, DecodeLogEntry(name, bytes));
  return std::optional<DecodedLogEntry>(std::move(entry));
}

Result<bool> ShardLog::IsTorn(LogPosition position) {
  ARROW_ASSIGN_OR_RAISE(const auto bytes, store_.Get(NameOf(position)));
  return IsTornLogEntry(bytes);
}

std::string ShardLog::NameOf(LogPosition position) const {
  return LogEntryName(table_, shard_, position);
}

Result<std::vector<LogPosition>> ShardLog::List() {
  const std::string prefix = LogPrefix(table_, shard_);
  ARROW_ASSIGN_OR_RAISE(const object_store::Listing listing, store_.List(prefix, {}));
  std::vector<LogPosition> positions;
  for (const auto& object : listing.objects) {
    const auto position = ParseRev64(std::string_view(object.name).substr(prefix.size()), ".arrow");
    if (position && *position > 0) positions.emplace_back(*position);
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

}  // namespace sarissa::memwal
