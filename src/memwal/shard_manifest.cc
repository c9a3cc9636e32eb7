#include "memwal/shard_manifest.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checksum.h"
#include "base/sync_point.h"
#include "memwal/claimed_epochs.h"
#include "memwal/names.h"

namespace sarissa::memwal {
namespace {

constexpr int kCommitRounds = 16;

// The checksum is the last field on the wire: the tag of field 18001 with wire type 5, then four
// bytes.
constexpr std::array<uint8_t, 3> kChecksumTag = {0x8D, 0xE5, 0x08};
constexpr size_t kChecksumBytes = kChecksumTag.size() + 4;

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

std::string EncodeShardManifest(const ShardManifest& manifest) {
  ShardManifest plain = manifest;
  plain.clear_sarissa_checksum();
  std::string bytes = plain.SerializeAsString();
  const uint32_t crc = Crc32c(BytesOf(bytes));
  bytes.append(reinterpret_cast<const char*>(kChecksumTag.data()), kChecksumTag.size());
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(crc >> shift));
  return bytes;
}

Result<ShardManifest> DecodeShardManifest(const std::string& name, const arrow::Buffer& bytes,
                                          ShardManifestVersion version) {
  if (bytes.size() == 0)
    return Error(ErrorKind::kCorrupt, "{}: the shard manifest has zero bytes", name);
  ShardManifest manifest;
  if (!manifest.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Error(ErrorKind::kCorrupt, "{}: {} bytes that are not a shard manifest", name,
                 bytes.size());
  }
  if (manifest.version() != version.value()) {
    return Error(ErrorKind::kCorrupt, "{}: holds version {} instead of {}", name,
                 manifest.version(), version);
  }
  // Told by the bytes, not by what was parsed: damage in a length can make another field swallow
  // the checksum.
  const size_t size = static_cast<size_t>(bytes.size());
  const uint8_t* tail = bytes.data() + size - std::min(size, kChecksumBytes);
  const bool checked =
      size >= kChecksumBytes && std::memcmp(tail, kChecksumTag.data(), kChecksumTag.size()) == 0;
  uint32_t stored = 0;
  for (size_t i = kChecksumBytes; checked && i-- > kChecksumTag.size();)
    stored = stored << 8 | tail[i];
  const bool intact = checked && Crc32c({bytes.data(), size - kChecksumBytes}) == stored;
  if ((checked || manifest.has_sarissa_checksum()) && !intact)
    return Error(ErrorKind::kCorrupt, "{}: the checksum does not match", name);
  return manifest;
}

Result<bool> ShardManifestStore::Exists(ShardManifestVersion version) const {
  const auto head = store_.Head(ShardManifestName(table_, shard_, version));
  if (head.ok()) return true;
  if (Is(head.status(), ErrorKind::kNotFound)) return false;
  return head.status();
}

Result<std::optional<ShardManifest>> ShardManifestStore::Read(ShardManifestVersion version) const {
  const std::string name = ShardManifestName(table_, shard_, version);
  auto bytes = store_.Get(name);
  if (!bytes.ok()) {
    if (Is(bytes.status(), ErrorKind::kNotFound)) return std::optional<ShardManifest>();
    return bytes.status();
  }
  ARROW_ASSIGN_OR_RAISE(ShardManifest manifest, DecodeShardManifest(name, **bytes, version));
  return std::optional<ShardManifest>(std::move(manifest));
}

Result<ShardManifestVersion> ShardManifestStore::ListNewest() const {
  const std::string prefix = ShardManifestPrefix(table_, shard_);
  ARROW_ASSIGN_OR_RAISE(const object_store::Listing listing, store_.List(prefix, {}));
  uint64_t newest = 0;
  for (const auto& object : listing.objects) {
    const auto version = ParseRev64(std::string_view(object.name).substr(prefix.size()), ".binpb");
    if (version) newest = std::max(newest, *version);
  }
  return ShardManifestVersion(newest);
}

Result<std::optional<ShardManifest>> ShardManifestStore::ReadNewest(
    ShardManifestVersion known) const {
  ARROW_ASSIGN_OR_RAISE(NewestShardManifest newest, FindNewest(known));
  return std::move(newest.manifest);
}

Result<NewestShardManifest> ShardManifestStore::FindNewest(ShardManifestVersion known) const {
  for (int round = 0; round < kCommitRounds; ++round) {
    ARROW_ASSIGN_OR_RAISE(const std::optional<NewestShardManifest> found, TryFindNewest(known));
    if (found) return *found;
    // What was listed, or known, was cleaned up before it could be read: there is a newer one, or
    // the shard is gone. The listing tells.
    known = {};
  }
  return Error(ErrorKind::kUnavailable,
               "the manifests of shard {} change faster than they are read", shard_.ToString());
}

Status ShardManifestStore::CheckNothingAbove(const NewestShardManifest& found) const {
  if (!found.manifest || found.taken.value() == found.manifest->version()) return Status::OK();
  return Error(ErrorKind::kCorrupt, "{}: the shard manifest has zero bytes",
               ShardManifestName(table_, shard_, found.taken));
}

// Nothing when a version that was there is gone.
Result<std::optional<NewestShardManifest>> ShardManifestStore::TryFindNewest(
    ShardManifestVersion known) const {
  NewestShardManifest newest;
  newest.taken = known;
  if (newest.taken.value() == 0) {
    ARROW_ASSIGN_OR_RAISE(newest.taken, ListNewest());
  }
  // A listing may lag behind; versions are dense, so probing forward finds what it missed.
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const bool exists, Exists(newest.taken.Next()));
    if (!exists) break;
    newest.taken = newest.taken.Next();
  }
  for (uint64_t version = newest.taken.value(); version > 0; --version) {
    const std::string name = ShardManifestName(table_, shard_, ShardManifestVersion(version));
    auto bytes = store_.Get(name);
    if (Is(bytes.status(), ErrorKind::kNotFound)) {
      if (version == newest.taken.value()) return std::optional<NewestShardManifest>();
      break;  // cleaned up, and everything below it
    }
    ARROW_RETURN_NOT_OK(bytes.status());
    if ((*bytes)->size() == 0) continue;
    ARROW_ASSIGN_OR_RAISE(newest.manifest,
                          DecodeShardManifest(name, **bytes, ShardManifestVersion(version)));
    break;
  }
  return std::optional<NewestShardManifest>(std::move(newest));
}

Status ShardManifestStore::Put(const ShardManifest& manifest) const {
  const ShardManifestVersion version(manifest.version());
  const std::string name = ShardManifestName(table_, shard_, version);
  const std::string bytes = EncodeShardManifest(manifest);
  Status put;
  bool unknown = false;
  // After a lost answer the version may be ours already. A second put settles it: the name is taken
  // by a durable object then.
  for (int tries = 0; tries < 2; ++tries) {
    put = store_.Put(name, BytesOf(bytes), object_store::PutMode::kIfAbsent);
    if (!Is(put, ErrorKind::kOutcomeUnknown)) break;
    unknown = true;
  }
  if (Is(put, ErrorKind::kAlreadyExists)) {
    const auto stored = unknown ? store_.Get(name) : Result<std::shared_ptr<arrow::Buffer>>(put);
    const bool ours = stored.ok() && (*stored)->size() == static_cast<int64_t>(bytes.size()) &&
                      std::memcmp((*stored)->data(), bytes.data(), bytes.size()) == 0;
    if (!ours)
      return Error(ErrorKind::kConflict, "shard manifest version {} exists already", version);
    put = Status::OK();
  }
  if (!put.ok()) return put;
  SARISSA_SYNC_POINT("shard_manifest.after_put");
  const std::string hint = fmt::format("{{\"version\":{}}}", version);
  // Only a hint: a reader that finds none, or an old one, looks for itself.
  (void)store_.Put(ShardManifestHintName(table_, shard_), BytesOf(hint),
                   object_store::PutMode::kOverwrite);
  return Status::OK();
}

Status ShardManifestStore::CheckDurable(const ShardManifest& manifest) const {
  const std::string name =
      ShardManifestName(table_, shard_, ShardManifestVersion(manifest.version()));
  // A store says that a name is taken only when that cannot be lost.
  const Status put =
      store_.Put(name, BytesOf(EncodeShardManifest(manifest)), object_store::PutMode::kIfAbsent);
  if (Is(put, ErrorKind::kAlreadyExists)) return Status::OK();
  if (!put.ok()) return put;
  return Error(ErrorKind::kConflict, "{} was cleaned up meanwhile", name);
}

Result<ShardManifest> ShardManifestStore::Claim(uint64_t nonce) const {
  uint64_t target = 0;
  for (int round = 0; round < kCommitRounds; ++round) {
    ARROW_ASSIGN_OR_RAISE(NewestShardManifest newest, FindNewest());
    ShardManifest claim;
    if (newest.manifest) {
      claim = *std::move(newest.manifest);
      if (claim.status() == ShardManifest::SEALED) {
        return Error(ErrorKind::kInvalid, "shard {} is sealed and takes no writer",
                     shard_.ToString());
      }
      if (target != 0 && claim.writer_epoch() >= target) {
        return Error(ErrorKind::kFenced, "another writer claimed epoch {} of shard {}",
                     claim.writer_epoch(), shard_.ToString());
      }
    } else {
      claim.mutable_shard_id()->set_uuid(shard_.bytes.data(), shard_.bytes.size());
      claim.set_current_generation(1);
    }
    const uint64_t lost = newest.taken.value() - claim.version();
    claim.set_version(newest.taken.Next().value());
    claim.set_writer_epoch(claim.writer_epoch() + lost + 1);
    claim.set_sarissa_nonce(nonce);
    RecordClaimedEpoch(claim);
    target = claim.writer_epoch();
    const Status put = Put(claim);
    if (put.ok()) return claim;
    if (!Is(put, ErrorKind::kConflict)) return put;
  }
  return Error(ErrorKind::kConflict, "the claim of shard {} lost its race {} times",
               shard_.ToString(), kCommitRounds);
}

Result<ShardManifest> ShardManifestStore::Commit(
    Epoch epoch, ShardManifestVersion known,
    const std::function<Status(ShardManifest&)>& change) const {
  for (int round = 0; round < kCommitRounds; ++round) {
    ARROW_ASSIGN_OR_RAISE(const NewestShardManifest found, FindNewest(known));
    const std::optional<ShardManifest>& newest = found.manifest;
    if (!newest)
      return Error(ErrorKind::kNotFound, "shard {} of {} has no manifest any more",
                   shard_.ToString(), table_);
    ARROW_RETURN_NOT_OK(CheckNothingAbove(found));
    if (newest->writer_epoch() != epoch.value()) {
      return Error(ErrorKind::kFenced, "shard {}: epoch {} owns it, ours is {}", shard_.ToString(),
                   newest->writer_epoch(), epoch);
    }
    ShardManifest successor = *newest;
    ARROW_RETURN_NOT_OK(change(successor));
    successor.set_version(newest->version() + 1);
    successor.set_writer_epoch(epoch.value());
    const Status put = Put(successor);
    if (put.ok()) return successor;
    if (!Is(put, ErrorKind::kConflict)) return put;
    known = ShardManifestVersion(successor.version());
  }
  return Error(ErrorKind::kConflict, "shard {}: the commit lost its race {} times",
               shard_.ToString(), kCommitRounds);
}

}  // namespace sarissa::memwal
