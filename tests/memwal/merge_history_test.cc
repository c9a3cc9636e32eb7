// Whole histories with merges in them: random ones against a model, one history cut in different
// ways, and a merge that ends at each of its writes.
#include <cstdlib>
#include <optional>

#include "env/sim/sim_random.h"
#include "tests/counts.h"
#include "tests/memwal/merge_world.h"

namespace sarissa::memwal {
namespace {

using MergeHistory = MergeWorld;

const int kModelCases = tests::Soak() ? 20'000 : 60;

// One to four changes of a few keys, a quarter of them tombstones, keys twice among them.
std::vector<Change> RandomChanges(env::SimRandom& random, int64_t& next_value) {
  std::vector<Change> changes;
  for (uint64_t left = 1 + random.Below(4); left > 0; --left) {
    std::string key = fmt::format("k{}", random.Below(8));
    changes.push_back(random.Below(4) == 0 ? Remove(key) : Set(key, next_value++));
  }
  return changes;
}

std::string ToText(const KeyedRows& rows) {
  std::string text;
  for (const auto& [key, value] : rows) text += fmt::format("{}={} ", key, value);
  return text;
}

class MergeModel : public MergeWorld {
 protected:
  void Run(uint64_t seed) {
    env::SimRandom random(seed);
    Model model;
    int64_t next_value = 1;
    auto writer = Open();
    // The last one may hold a flush, so that its memtable stays frozen. A flush may still be
    // leaving one that was opened.
    std::vector<std::unique_ptr<Gate>> gates;
    Gate* held = nullptr;
    const auto release = [&] {
      if (held == nullptr) return;
      SyncPoints::Instance().Clear();
      std::exchange(held, nullptr)->Open();
      ASSERT_TRUE(SealAndWait(*writer).ok());
    };
    for (int step = 0; step < 60; ++step) {
      SCOPED_TRACE(fmt::format("step {}", step));
      switch (random.Below(8)) {
        case 0:
        case 1:
        case 2: {
          const auto changes = RandomChanges(random, next_value);
          ASSERT_TRUE(Write(*writer, changes).ok());
          model.Apply(changes);
          break;
        }
        case 3:
          release();
          ASSERT_TRUE(SealAndWait(*writer).ok());
          break;
        case 4: {
          if (held != nullptr) break;
          ASSERT_TRUE(Write(*writer, {Set("k0", next_value)}).ok());
          model.Apply({Set("k0", next_value++)});
          held = gates.emplace_back(std::make_unique<Gate>("flush.after_data")).get();
          (void)writer->Seal();
          held->AwaitArrival();
          break;
        }
        case 5:
        case 6: {
          MergeOptions options = Merging(store_);
          options.max_generations = random.Below(3);
          options.fragment_rows = 1 + random.Below(5);
          Merge(options);
          break;
        }
        default:
          release();
          writer = Open();
      }
      ASSERT_EQ(ToText(Read(*writer)), ToText(model.rows()));
    }
    release();
    ASSERT_TRUE(SealAndWait(*writer).ok());
    Merge();
    EXPECT_EQ(ToText(BaseRows()), ToText(model.rows()));
    EXPECT_EQ(Manifest().sstables_size(), 0);
  }
};

class MergeModelRun : public MergeModel {
 public:
  void TestBody() override {}
  using MergeModel::Run;
};

TEST(MergeModel, EveryReadEqualsTheModelOverBaseGenerationsFrozenAndActive) {
  const uint64_t first = tests::SeedFor("MergeModel");
  for (int i = 0; i < kModelCases; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(fmt::format("replay with SARISSA_SEED={}", seed));
    MergeModelRun().Run(seed);
    if (::testing::Test::HasFatalFailure() || ::testing::Test::HasFailure()) return;
  }
}

class OneHistory : public MergeWorld {
 public:
  void TestBody() override {}
  // Reads with a flush after every `batches_each` batches (0: none), before and after merges of
  // `generations_each` (0: all at once).
  void Run(const std::vector<std::vector<Change>>& history, size_t batches_each,
           uint64_t generations_each, const KeyedRows& expected) {
    const auto writer = Open();
    for (size_t i = 0; i < history.size(); ++i) {
      ASSERT_TRUE(Write(*writer, history[i]).ok());
      if (batches_each == 0 || (i + 1) % batches_each != 0) continue;
      ASSERT_TRUE(SealAndWait(*writer).ok());
    }
    ASSERT_EQ(ToText(Read(*writer)), ToText(expected)) << "before a merge";
    MergeOptions options = Merging(store_);
    options.max_generations = generations_each;
    for (MergeReport report;;) {
      report = Merge(options);
      ASSERT_EQ(ToText(Read(*writer)), ToText(expected)) << "at " << report.watermark.value();
      if (report.generations_left == 0) break;
    }
    ASSERT_TRUE(SealAndWait(*writer).ok());
    Merge();
    ASSERT_EQ(ToText(BaseRows()), ToText(expected)) << "in the base";
  }
};

TEST(MergeHistories, ReadAlikeWithNoneOneOrManyGenerationsAndAfterTheMerge) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    env::SimRandom random(seed);
    std::vector<std::vector<Change>> history;
    Model model;
    int64_t next_value = 1;
    for (int i = 0; i < 16; ++i) {
      history.push_back(RandomChanges(random, next_value));
      model.Apply(history.back());
    }
    for (const size_t batches_each : {0, 16, 5, 1}) {
      for (const uint64_t generations_each : {0, 1, 3}) {
        SCOPED_TRACE(fmt::format("{} batches a generation, {} generations a merge", batches_each,
                                 generations_each));
        OneHistory().Run(history, batches_each, generations_each, model.rows());
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// What becomes of the n-th write, and of all calls after it.
enum class End {
  kLost,         // not done, and the process is gone
  kLanded,       // done, and the process is gone before it hears of it
  kRefused,      // not done; the process goes on
  kAnswerLost,   // done, but the answer says unknown; the process goes on
  kNothingSaid,  // not done, the answer says unknown; the process goes on
};

// Lets a number of writes (objects put, names deleted) pass.
class CutStore final : public object_store::ObjectStore {
 public:
  CutStore(object_store::ObjectStore& inner, uint64_t nth, End end)
      : inner_(inner), nth_(nth), end_(end) {}

  uint64_t writes() const { return writes_; }

  Result<std::unique_ptr<object_store::ObjectWriter>> Create(const std::string& name) override {
    ARROW_RETURN_NOT_OK(Alive());
    ARROW_ASSIGN_OR_RAISE(auto inner, inner_.Create(name));
    return std::make_unique<Writer>(*this, std::move(inner));
  }
  Result<std::shared_ptr<object_store::ObjectReader>> Open(const std::string& name) override {
    ARROW_RETURN_NOT_OK(Alive());
    return inner_.Open(name);
  }
  Result<object_store::ObjectInfo> Head(const std::string& name) override {
    ARROW_RETURN_NOT_OK(Alive());
    return inner_.Head(name);
  }
  Result<object_store::Listing> List(const std::string& prefix,
                                     const object_store::ListOptions& options) override {
    ARROW_RETURN_NOT_OK(Alive());
    return inner_.List(prefix, options);
  }
  Status Delete(const std::string& name) override {
    return Write([&] { return inner_.Delete(name); });
  }
  Status DeletePrefix(const std::string& prefix) override {
    return Write([&] { return inner_.DeletePrefix(prefix); });
  }

 private:
  class Writer final : public object_store::ObjectWriter {
   public:
    Writer(CutStore& store, std::unique_ptr<object_store::ObjectWriter> inner)
        : store_(store), inner_(std::move(inner)) {}
    Status Append(std::span<const uint8_t> data) override { return inner_->Append(data); }
    uint64_t size() const override { return inner_->size(); }
    Status Finish(object_store::PutMode mode) override {
      return store_.Write([&] { return inner_->Finish(mode); });
    }

   private:
    CutStore& store_;
    const std::unique_ptr<object_store::ObjectWriter> inner_;
  };

  Status Alive() const {
    return dead_ ? Error(ErrorKind::kUnavailable, "the process is gone") : Status::OK();
  }
  Status Write(const std::function<Status()>& write) {
    ARROW_RETURN_NOT_OK(Alive());
    if (++writes_ != nth_) return write();
    dead_ = end_ == End::kLost || end_ == End::kLanded;
    if (end_ == End::kLanded || end_ == End::kAnswerLost) ARROW_RETURN_NOT_OK(write());
    const bool unknown = end_ == End::kAnswerLost || end_ == End::kNothingSaid;
    return Error(unknown ? ErrorKind::kOutcomeUnknown : ErrorKind::kUnavailable, "write {}", nth_);
  }

  object_store::ObjectStore& inner_;
  const uint64_t nth_;
  const End end_;
  uint64_t writes_ = 0;
  bool dead_ = false;
};

TEST_F(MergeHistory, AMergeThatEndsAtAnyOfItsWritesIsRepairedByTheNext) {
  Model model;
  {
    const auto writer = Open();
    const auto flush = [&](const std::vector<Change>& changes) {
      Flush(*writer, changes);
      model.Apply(changes);
    };
    flush({Set("a", 1), Set("b", 1), Set("c", 1), Set("d", 1)});
    Merge();
    flush({Set("e", 2)});
    Merge();
    flush({Set("a", 3), Remove("b"), Set("f", 3), Set("e", 3)});
    flush({Remove("f"), Set("g", 4)});
    flush({Set("b", 5), Set("c", 5)});
  }
  const KeyedRows expected = model.rows();
  ASSERT_EQ(ReadStored(memory_), expected);
  for (const End end :
       {End::kLost, End::kLanded, End::kRefused, End::kAnswerLost, End::kNothingSaid}) {
    uint64_t ended_early = 0;
    for (uint64_t nth = 1;; ++nth) {
      SCOPED_TRACE(fmt::format("write {}, end {}", nth, static_cast<int>(end)));
      const auto world = CopyOf(memory_);
      CutStore store(*world, nth, end);
      MergeReport report;
      const Status merged = MergeGenerations(Merging(store), report);
      ASSERT_EQ(ToText(ReadStored(*world)), ToText(expected)) << merged;
      if (!merged.ok()) ++ended_early;
      const auto watermark = MergedGenerations(*Base(*world)).ValueOrDie().at(shard_);
      ASSERT_TRUE(watermark == Generation(2) || watermark == Generation(5)) << watermark.value();

      Merge(Merging(*world));
      ASSERT_EQ(ToText(ReadStored(*world)), ToText(expected));
      ASSERT_EQ(ToText(NewestWins({RowsOf(*Base(*world))})), ToText(expected));
      ASSERT_EQ(ShardManifestStore(*world, "t", shard_).ReadNewest().ValueOrDie()->sstables_size(),
                0);
      const TableVersion version = Base(*world)->version();
      Merge(Merging(*world));
      ASSERT_EQ(Base(*world)->version(), version) << "nothing is left to do";
      if (store.writes() < nth) break;
    }
    EXPECT_GE(ended_early, end == End::kLost ? 6u : 1u);
  }
}

TEST_F(MergeHistory, ReadersNeverMissARowWhileGenerationsAreMerged) {
  const auto writer = Open();
  Model model;
  for (int64_t i = 0; i < 30; ++i) {
    const std::vector<Change> changes = {Set(fmt::format("k{}", i % 7), i),
                                         Remove(fmt::format("k{}", (i + 3) % 7))};
    Flush(*writer, changes);
    model.Apply(changes);
    // At each step a reader with the writer's view, and one that has read the manifest before.
    const ShardView before = writer->View();
    for (const char* point : {"merge.before_commit", "merge.after_commit", "merge.after_drain"}) {
      SyncPoints::Instance().Arm(point, [&, point] {
        EXPECT_EQ(ToText(Read(*writer)), ToText(model.rows())) << point;
        EXPECT_EQ(ToText(Read(memory_, before)), ToText(model.rows())) << point;
        EXPECT_EQ(ToText(ReadStored(memory_)), ToText(model.rows())) << point;
      });
    }
    if (i % 3 == 2) Merge();
    SyncPoints::Instance().Clear();
  }
}

}  // namespace
}  // namespace sarissa::memwal
