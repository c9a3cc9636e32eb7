// Bytes on disk: names, log entries, shard manifests, position sidecars.
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <gtest/gtest.h>

#include "env/sim/sim_random.h"
#include "memwal/log_entry.h"
#include "memwal/names.h"
#include "memwal/position_sidecar.h"
#include "memwal/shard_manifest.h"
#include "object_store/memory_store.h"
#include "tests/memwal/rows.h"

namespace sarissa::memwal {
namespace {

using testing::StorageBatch;

std::shared_ptr<arrow::Buffer> EncodedEntry(
    object_store::MemoryStore& store, const LogEntryHeader& header,
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  auto writer = store.Create("entry").ValueOrDie();
  EXPECT_TRUE(WriteLogEntry(header, batches, *writer).ok());
  EXPECT_TRUE(writer->Finish(object_store::PutMode::kOverwrite).ok());
  return store.Get("entry").ValueOrDie();
}

std::shared_ptr<arrow::Buffer> Copy(const arrow::Buffer& buffer) {
  return arrow::Buffer::FromString(buffer.ToString());
}

TEST(Names, Rev64PutsTheLeastSignificantBitFirst) {
  EXPECT_EQ(Rev64(1), "1" + std::string(63, '0'));
  EXPECT_EQ(Rev64(2), "01" + std::string(62, '0'));
  EXPECT_EQ(Rev64(5), "101" + std::string(61, '0'));
  for (const uint64_t n : {uint64_t{0}, uint64_t{1}, uint64_t{77}, UINT64_MAX}) {
    EXPECT_EQ(ParseRev64(Rev64(n) + ".arrow", ".arrow"), n);
  }
  EXPECT_FALSE(ParseRev64(Rev64(1) + ".arrow.tmp.0123", ".arrow"));
  EXPECT_FALSE(ParseRev64("version_hint.json", ".binpb"));
}

TEST(LogEntry, ComesBackWithItsRowsAndItsTrailer) {
  object_store::MemoryStore store;
  const std::vector<std::shared_ptr<arrow::RecordBatch>> batches = {
      StorageBatch({{"a", 1}, {"b", 2}}), StorageBatch({{"a", 3}})};
  const auto bytes = EncodedEntry(store, {Epoch(4), Generation(7), 99}, batches);
  const auto entry = DecodeLogEntry("entry", bytes);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->epoch, Epoch(4));
  EXPECT_EQ(entry->generation, Generation(7));
  EXPECT_FALSE(entry->sentinel);
  ASSERT_EQ(entry->batches.size(), 2u);
  EXPECT_TRUE(entry->batches[0]->Equals(*batches[0]));
  EXPECT_TRUE(entry->batches[1]->Equals(*batches[1]));
}

// The original refuses to replay an entry whose schema carries any other key.
TEST(LogEntry, SchemaMetadataHoldsTheEpochAndNothingElse) {
  object_store::MemoryStore store;
  const auto bytes = EncodedEntry(store, {Epoch(4), Generation(7), 99}, {StorageBatch({{"a", 1}})});
  arrow::io::BufferReader input(bytes);
  const auto reader = arrow::ipc::RecordBatchStreamReader::Open(&input).ValueOrDie();
  EXPECT_EQ(reader->schema()->metadata()->size(), 1);
  EXPECT_EQ(reader->schema()->metadata()->Get("writer_epoch").ValueOrDie(), "4");
}

TEST(LogEntry, AnyFlippedBitIsDetected) {
  object_store::MemoryStore store;
  const auto bytes =
      EncodedEntry(store, {Epoch(1), Generation(1), 5}, {StorageBatch({{"a", 1}, {"b", 2}})});
  for (int64_t at = 0; at < bytes->size(); ++at) {
    auto damaged = bytes->ToString();
    damaged[static_cast<size_t>(at)] = static_cast<char>(damaged[static_cast<size_t>(at)] ^ 0x10);
    const auto entry = DecodeLogEntry("entry", arrow::Buffer::FromString(damaged));
    EXPECT_TRUE(Is(entry.status(), ErrorKind::kCorrupt)) << "byte " << at << ": " << entry.status();
  }
}

TEST(LogEntry, EveryTornPrefixIsDetected) {
  object_store::MemoryStore store;
  const auto bytes = EncodedEntry(store, {Epoch(1), Generation(1), 5},
                                  {StorageBatch({{"a", 1}}), StorageBatch({{"b", 2}})});
  for (int64_t size = 0; size < bytes->size() - kLogTrailerBytes; ++size) {
    const auto entry = DecodeLogEntry("entry", Copy(*arrow::SliceBuffer(bytes, 0, size)));
    EXPECT_TRUE(Is(entry.status(), ErrorKind::kCorrupt)) << "cut at " << size;
  }
}

TEST(LogEntry, WithoutATrailerIsUnverifiedAndAccepted) {
  object_store::MemoryStore store;
  const auto bytes = EncodedEntry(store, {Epoch(2), Generation(1), 5}, {StorageBatch({{"a", 1}})});
  const auto entry =
      DecodeLogEntry("entry", arrow::SliceBuffer(bytes, 0, bytes->size() - kLogTrailerBytes));
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_FALSE(entry->generation);
  EXPECT_EQ(entry->batches.size(), 1u);
}

TEST(LogEntry, SentinelsCarryTheirEpochAndNoRows) {
  const std::string bytes = EncodeSentinel(Epoch(3)).ValueOrDie();
  const auto entry = DecodeLogEntry("sentinel", arrow::Buffer::FromString(bytes));
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_TRUE(entry->sentinel);
  EXPECT_EQ(entry->epoch, Epoch(3));
  EXPECT_TRUE(entry->batches.empty());
}

TEST(ShardManifest, ChecksumCoversEverythingAndItsAbsenceIsAccepted) {
  ShardManifest manifest;
  manifest.set_version(3);
  manifest.set_writer_epoch(2);
  manifest.set_current_generation(5);
  auto* generation = manifest.add_sstables();
  generation->set_generation(4);
  generation->set_path("00000001_gen_4");
  const std::string bytes = EncodeShardManifest(manifest);
  ASSERT_TRUE(
      DecodeShardManifest("m", *arrow::Buffer::FromString(bytes), ShardManifestVersion(3)).ok());
  const std::string plain = manifest.SerializeAsString();
  EXPECT_TRUE(
      DecodeShardManifest("m", *arrow::Buffer::FromString(plain), ShardManifestVersion(3)).ok());
  for (size_t at = 0; at + 7 < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x01);
    const auto decoded =
        DecodeShardManifest("m", *arrow::Buffer::FromString(damaged), ShardManifestVersion(3));
    EXPECT_TRUE(Is(decoded.status(), ErrorKind::kCorrupt)) << "byte " << at;
  }
  EXPECT_TRUE(
      Is(DecodeShardManifest("m", *arrow::Buffer::FromString(""), ShardManifestVersion(3)).status(),
         ErrorKind::kCorrupt));
}

class ShardManifestStoreTest : public ::testing::Test {
 protected:
  const ShardId shard_ = ShardId::FromName("default");
  object_store::MemoryStore store_;
  ShardManifestStore manifests_{store_, "t", shard_};
};

TEST_F(ShardManifestStoreTest, ClaimsRaiseTheEpochByOne) {
  EXPECT_FALSE(manifests_.ReadNewest().ValueOrDie());
  EXPECT_EQ(manifests_.Claim(7).ValueOrDie().writer_epoch(), 1u);
  EXPECT_EQ(manifests_.Claim(7).ValueOrDie().writer_epoch(), 2u);
  EXPECT_EQ(manifests_.ReadNewest().ValueOrDie()->version(), 2u);
}

TEST_F(ShardManifestStoreTest, ASealedShardTakesNoWriter) {
  ShardManifest sealed;
  sealed.set_version(1);
  sealed.set_writer_epoch(1);
  sealed.set_status(ShardManifest::SEALED);
  ASSERT_TRUE(manifests_.Put(sealed).ok());
  EXPECT_TRUE(Is(manifests_.Claim(7).status(), ErrorKind::kInvalid));
  EXPECT_EQ(manifests_.ReadNewest().ValueOrDie()->version(), 1u);
}

TEST_F(ShardManifestStoreTest, AVersionIsWrittenOnce) {
  ShardManifest first;
  first.set_version(1);
  first.set_writer_epoch(1);
  ASSERT_TRUE(manifests_.Put(first).ok());
  ShardManifest second = first;
  second.set_writer_epoch(9);
  EXPECT_TRUE(Is(manifests_.Put(second), ErrorKind::kConflict));
  EXPECT_EQ(manifests_.ReadNewest().ValueOrDie()->writer_epoch(), 1u);
}

TEST_F(ShardManifestStoreTest, AForeignEpochMayNotCommit) {
  ASSERT_TRUE(manifests_.Claim(7).ok());
  ASSERT_TRUE(manifests_.Claim(7).ok());
  const auto commit = manifests_.Commit(Epoch(1), {}, [](ShardManifest&) { return Status::OK(); });
  EXPECT_TRUE(Is(commit.status(), ErrorKind::kFenced));
}

TEST_F(ShardManifestStoreTest, NoHintHidesTheNewestVersion) {
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(manifests_.Claim(7).ok());
  const std::string hint = ShardManifestHintName("t", shard_);
  for (const std::string_view text : {R"({"version":1})", R"({"version":57})", "garbage", ""}) {
    ASSERT_TRUE(store_
                    .Put(hint, {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                         object_store::PutMode::kOverwrite)
                    .ok());
    EXPECT_EQ(manifests_.ReadNewest().ValueOrDie()->version(), 5u) << text;
  }
  ASSERT_TRUE(store_.Delete(hint).ok());
  EXPECT_EQ(manifests_.ReadNewest().ValueOrDie()->version(), 5u);
}

TEST(PositionSidecar, ComesBackAndDistrustsDamage) {
  const std::vector<RowPositions> runs = {{LogPosition(1), 0, 3}, {LogPosition(4), 2, 9}};
  const std::string bytes = EncodePositionSidecar(runs);
  const auto span = [](const std::string& text) {
    return std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  EXPECT_EQ(DecodePositionSidecar(span(bytes)), runs);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    EXPECT_FALSE(DecodePositionSidecar(span(damaged))) << "byte " << at;
    EXPECT_FALSE(DecodePositionSidecar(span(bytes.substr(0, at))));
  }
}

}  // namespace
}  // namespace sarissa::memwal
