// The formats of a shard, over random contents: what is written comes back, and damage is told or
// harmless.
//
// A case is drawn from a seed of its own, so what a failure prints replays as the first case.
#include <arrow/buffer.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "env/sim/sim_random.h"
#include "memwal/log_entry.h"
#include "memwal/position_sidecar.h"
#include "memwal/shard_manifest.h"
#include "object_store/memory_store.h"
#include "tests/counts.h"
#include "tests/memwal/rows.h"

namespace sarissa::memwal {
namespace {

void ForEachCase(std::string_view test, const std::function<void(env::Random&)>& check) {
  const uint64_t first = tests::SeedFor(test);
  for (int i = 0; i < tests::kFormatCases && !::testing::Test::HasFatalFailure(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(fmt::format("replay with SARISSA_SEED={}", seed));
    env::SimRandom random(seed);
    check(random);
  }
}

// Numbers near the edges are as likely as any.
uint64_t AnyNumber(env::Random& random) {
  const uint64_t number = random.Next() >> random.Below(64);
  return random.Below(8) == 0 ? UINT64_MAX - number : number;
}

std::string AnyText(env::Random& random, uint64_t longest) {
  std::string text(random.Below(longest + 1), ' ');
  for (char& c : text) c = static_cast<char>(random.Below(128));
  return text;
}

std::shared_ptr<arrow::RecordBatch> AnyBatch(env::Random& random) {
  const auto rows = static_cast<int64_t>(1 + random.Below(6));
  const int64_t skipped = static_cast<int64_t>(random.Below(3));
  arrow::StringBuilder ids;
  arrow::Int64Builder values;
  for (int64_t row = 0; row < skipped + rows; ++row) {
    EXPECT_TRUE(ids.Append(AnyText(random, 20)).ok());
    const bool null = random.Below(4) == 0;
    EXPECT_TRUE(
        (null ? values.AppendNull() : values.Append(static_cast<int64_t>(AnyNumber(random)))).ok());
  }
  const auto user = arrow::RecordBatch::Make(testing::KeyedBase().arrow_schema(), skipped + rows,
                                             {*ids.Finish(), *values.Finish()});
  return WithLiveTombstones(user, testing::KeyedStorage()).ValueOrDie()->Slice(skipped);
}

// One flipped bit, a cut, or bytes that do not belong there.
std::string Damaged(env::Random& random, std::string bytes) {
  const size_t at = random.Below(bytes.size());
  switch (random.Below(3)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Below(8)));
      break;
    case 1:
      bytes.resize(at);
      break;
    default:
      bytes += AnyText(random, 60);
  }
  return bytes;
}

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

bool SameRows(const std::vector<std::shared_ptr<arrow::RecordBatch>>& left,
              const std::vector<std::shared_ptr<arrow::RecordBatch>>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const auto& a, const auto& b) { return a->Equals(*b); });
}

TEST(LogEntryProperty, ComesBackAndDamageIsTold) {
  ForEachCase("LogEntryProperty", [](env::Random& random) {
    object_store::MemoryStore store;
    const LogEntryHeader header = {Epoch(AnyNumber(random)), Generation(AnyNumber(random)),
                                   random.Next()};
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches(1 + random.Below(3));
    for (auto& batch : batches) batch = AnyBatch(random);
    const auto writer = store.Create("entry").ValueOrDie();
    ASSERT_TRUE(WriteLogEntry(header, batches, *writer).ok());
    ASSERT_TRUE(writer->Finish(object_store::PutMode::kIfAbsent).ok());
    const std::shared_ptr<arrow::Buffer> bytes = store.Get("entry").ValueOrDie();

    const auto entry = DecodeLogEntry("entry", bytes);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->epoch, header.epoch);
    EXPECT_EQ(entry->generation, header.generation);
    EXPECT_FALSE(entry->sentinel);
    EXPECT_TRUE(SameRows(entry->batches, batches));
    const auto trailer = ParseLogTrailer({bytes->data(), static_cast<size_t>(bytes->size())});
    ASSERT_TRUE(trailer);
    EXPECT_EQ(trailer->nonce, header.nonce);

    const auto damaged =
        DecodeLogEntry("entry", arrow::Buffer::FromString(Damaged(random, bytes->ToString())));
    if (damaged.ok()) {
      EXPECT_TRUE(SameRows(damaged->batches, batches));
    } else {
      EXPECT_TRUE(Is(damaged.status(), ErrorKind::kCorrupt)) << damaged.status();
    }
  });
}

TEST(LogEntryProperty, SentinelsComeBackForAnyEpoch) {
  ForEachCase("SentinelProperty", [](env::Random& random) {
    const Epoch epoch(AnyNumber(random));
    const std::string bytes = EncodeSentinel(epoch).ValueOrDie();
    const auto entry = DecodeLogEntry("sentinel", arrow::Buffer::FromString(bytes));
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->epoch, epoch);
    EXPECT_TRUE(entry->sentinel);
    const auto damaged =
        DecodeLogEntry("sentinel", arrow::Buffer::FromString(Damaged(random, bytes)));
    EXPECT_TRUE(damaged.ok() || Is(damaged.status(), ErrorKind::kCorrupt)) << damaged.status();
  });
}

ShardManifest AnyManifest(env::Random& random) {
  ShardManifest manifest;
  manifest.set_version(AnyNumber(random));
  manifest.set_writer_epoch(AnyNumber(random));
  manifest.set_replay_after_wal_entry_position(AnyNumber(random));
  manifest.set_wal_entry_position_last_seen(AnyNumber(random));
  manifest.set_current_generation(AnyNumber(random));
  manifest.set_status(random.Below(2) == 0 ? ShardManifest::ACTIVE : ShardManifest::SEALED);
  manifest.mutable_shard_id()->set_uuid(AnyText(random, 16));
  for (uint64_t i = random.Below(5); i > 0; --i) {
    auto* generation = manifest.add_sstables();
    generation->set_generation(AnyNumber(random));
    generation->set_path(AnyText(random, 30));
    if (random.Below(2) == 0) generation->set_in_memory_bytes(AnyNumber(random));
    if (random.Below(2) == 0) generation->set_physical_rows(AnyNumber(random));
  }
  return manifest;
}

TEST(ShardManifestProperty, ComesBackAndDamageIsTold) {
  const google::protobuf::LogSilencer damage_is_meant;
  ForEachCase("ShardManifestProperty", [](env::Random& random) {
    const ShardManifest manifest = AnyManifest(random);
    const auto plain = [](ShardManifest read) {
      read.clear_sarissa_checksum();
      read.DiscardUnknownFields();
      return read.SerializeAsString();
    };
    const std::string bytes = EncodeShardManifest(manifest);
    const ShardManifestVersion version(manifest.version());
    const auto decoded = DecodeShardManifest("m", *arrow::Buffer::FromString(bytes), version);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(plain(*decoded), plain(manifest));
    EXPECT_TRUE(decoded->has_sarissa_checksum());

    // A cut at the end of a field looks like a manifest of other software, which has no checksum:
    // only the store's atomic put rules it out. A flipped bit is always told, or harms nothing.
    std::string flipped = bytes;
    const size_t at = random.Below(bytes.size());
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << random.Below(8)));
    const auto damaged = DecodeShardManifest("m", *arrow::Buffer::FromString(flipped), version);
    if (damaged.ok()) {
      EXPECT_EQ(plain(*damaged), plain(manifest));
    } else {
      EXPECT_TRUE(Is(damaged.status(), ErrorKind::kCorrupt)) << damaged.status();
    }
    const auto cut = DecodeShardManifest(
        "m", *arrow::Buffer::FromString(bytes.substr(0, random.Below(bytes.size()))), version);
    EXPECT_TRUE(cut.ok() || Is(cut.status(), ErrorKind::kCorrupt)) << cut.status();
  });
}

TEST(PositionSidecarProperty, ComesBackAndDamageIsDistrusted) {
  ForEachCase("PositionSidecarProperty", [](env::Random& random) {
    std::vector<RowPositions> runs(random.Below(9));
    for (RowPositions& run : runs) {
      run = {LogPosition(AnyNumber(random)), static_cast<uint32_t>(AnyNumber(random)),
             static_cast<uint32_t>(AnyNumber(random))};
    }
    const std::string bytes = EncodePositionSidecar(runs);
    EXPECT_EQ(DecodePositionSidecar(Bytes(bytes)), runs);
    const std::string damaged = Damaged(random, bytes);
    if (damaged != bytes) {
      EXPECT_FALSE(DecodePositionSidecar(Bytes(damaged)));
    }
  });
}

}  // namespace
}  // namespace sarissa::memwal
