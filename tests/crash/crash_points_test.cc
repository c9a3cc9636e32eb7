// Every crash point of one workload: about 200 appends, 4 seals, 2 merges, a clean-up, and a second
// process that takes the shard over.
//
// The workload runs once. At each mutating call on the disk the crash images are made that a crash
// there can leave: just before the call, and within it where it appends bytes (none, one, half, all
// but one of them there, or garbage behind a good half), each with the unsynced data lost, kept and
// drawn. Just after a call is just before the next one: the disk is the same and the clients know
// no less. Images that are equal to one that was checked, with the same promises given, are counted
// and not reopened again: many are, because the local store writes files without a name, of which a
// crash leaves nothing.
//
// A new process on each image must find what was promised (expectations.h, shard_audit.h) and then
// take an append, a flush and a read.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/counts.h"
#include "tests/simulation/maintenance.h"
#include "tests/simulation/store_process.h"

namespace sarissa::simulation {
namespace {

using env::SimDisk;
using env::SimOperation;
using env::SimOperationKind;
using memwal::testing::KeyedRows;

constexpr char kStore[] = "exp";
constexpr int kAppends = 200;
constexpr int kAppendsPerSeal = 50;
constexpr int kTakeoverAt = 120;
constexpr uint64_t kKeysPerClient = 4;

struct CrashImage {
  std::string label;
  std::unique_ptr<SimDisk> disk;
  std::shared_ptr<const Expectations> expectations;
  uint64_t seed = 0;
};

// All distinct states that a crash during a run can leave.
class CrashImages {
 public:
  CrashImages(const SimDisk& disk, const Expectations& expectations, uint64_t seed)
      : disk_(disk), expectations_(expectations), random_(seed) {}

  Status Before(const SimOperation& operation) {
    if (!env::IsMutation(operation.kind)) return Status::OK();
    Take(fmt::format("before {}", Describe(operation)), [](SimDisk&) {});
    return Status::OK();
  }
  Status After(const SimOperation& operation) {
    if (operation.kind != SimOperationKind::kAppend || operation.bytes == 0) return Status::OK();
    const auto tear = [&](uint64_t kept, env::Random* garbage) {
      Take(fmt::format("{} of the bytes{} of {}", kept, garbage ? " and garbage" : "",
                       Describe(operation)),
           [&](SimDisk& image) {
             image.TearAppend(operation.file, operation.bytes, kept, garbage);
           });
    };
    for (const uint64_t kept :
         {uint64_t{0}, uint64_t{1}, operation.bytes / 2, operation.bytes - 1}) {
      tear(kept, nullptr);
    }
    tear(operation.bytes / 2, &random_);
    return Status::OK();
  }

  std::deque<CrashImage>& waiting() { return waiting_; }
  uint64_t states() const { return states_; }
  uint64_t distinct() const { return seen_.size(); }

 private:
  std::string Describe(const SimOperation& operation) const {
    return fmt::format("call {}: {} '{}'", disk_.mutations(), SimOperationName(operation.kind),
                       operation.path);
  }

  void Take(const std::string& where, const std::function<void(SimDisk&)>& tear) {
    constexpr std::pair<SimDisk::CrashMode, const char*> kModes[] = {
        {SimDisk::CrashMode::kDropAllUnsynced, "lost"},
        {SimDisk::CrashMode::kKeepAll, "kept"},
        {SimDisk::CrashMode::kRandom, "drawn"}};
    for (const auto& [mode, unsynced] : kModes) {
      auto image = disk_.Clone();
      tear(*image);
      image->Crash(random_, mode);
      ++states_;
      if (!seen_.insert(image->StateHash() + expectations_.changes() * 0x9e3779b97f4a7c15).second)
        continue;
      if (known_ == nullptr || known_->changes() != expectations_.changes())
        known_ = std::make_shared<Expectations>(expectations_);
      waiting_.push_back({fmt::format("{}, unsynced data {}", where, unsynced), std::move(image),
                          known_, random_.Next()});
    }
  }

  const SimDisk& disk_;
  const Expectations& expectations_;
  env::SimRandom random_;
  std::shared_ptr<const Expectations> known_;
  std::unordered_set<uint64_t> seen_;
  std::deque<CrashImage> waiting_;
  uint64_t states_ = 0;
};

// What is wrong with a state, or empty.
std::string CheckState(const CrashImage& image) {
  env::SimScheduler scheduler(image.seed);
  StoreProcess process(scheduler, *image.disk, {.seed = image.seed, .yield_percent = 0});
  Status status = process.Audit(kStore, *image.expectations);
  if (!status.ok()) return "audit: " + status.ToString();
  status = process.Open(kStore);
  if (!status.ok()) return "open: " + status.ToString();
  auto shown = process.Read(kStore);
  if (!shown.ok()) return "read: " + shown.status().ToString();
  const std::string problem = image.expectations->Check(*shown);
  if (!problem.empty()) return problem;

  const KeyedRows more = {{"after the crash", INT64_MAX}};
  Shown expected = *shown;
  expected.emplace(more.front());
  const auto receipt = process.Append(kStore, more);
  if (!receipt.ok()) return "append: " + receipt.status().ToString();
  status = process.Flush(kStore);
  if (!status.ok()) return "flush: " + status.ToString();
  shown = process.Read(kStore);
  if (!shown.ok()) return "read after the flush: " + shown.status().ToString();
  return *shown == expected ? "" : "the rows changed with an append and a flush";
}

class Workload {
 public:
  explicit Workload(uint64_t seed)
      : random_(seed), scheduler_(seed), images_(disk_, expectations_, seed ^ 0x5a5a) {
    disk_.RecordOperations(false);
  }

  // What went wrong, or empty.
  std::string Run() {
    const Status status = RunScript();
    if (!problem_.empty()) return problem_;
    return status.ok() ? "" : "the workload itself: " + status.ToString();
  }
  void PrintCounts() const {
    printf("%llu mutating calls, %llu crash states, %llu distinct, %llu reopened\n",
           static_cast<unsigned long long>(disk_.mutations()),
           static_cast<unsigned long long>(images_.states()),
           static_cast<unsigned long long>(images_.distinct()),
           static_cast<unsigned long long>(reopened_));
  }

 private:
  Status RunScript() {
    auto process = StartProcess();
    ARROW_RETURN_NOT_OK(process->Open(kStore));
    std::unique_ptr<StoreProcess> predecessor;
    for (int append = 1; append <= kAppends; ++append) {
      ARROW_RETURN_NOT_OK(AppendSome(*process, append % 10 == 0 ? 3 : 1));
      if (append == kTakeoverAt) {
        predecessor = std::exchange(process, StartProcess());
        ARROW_RETURN_NOT_OK(TakeOver(*predecessor, *process));
      }
      if (append % kAppendsPerSeal == 0) {
        ARROW_RETURN_NOT_OK(process->Flush(kStore));
        ARROW_RETURN_NOT_OK(CheckWaiting());
      }
      if (append % (2 * kAppendsPerSeal) == 0) ARROW_RETURN_NOT_OK(Merge(*process, kStore));
      if (append == kAppends)
        ARROW_RETURN_NOT_OK(CleanUp(*process, kStore, env::Duration(0), clean_up_));
      ARROW_RETURN_NOT_OK(CheckWaiting());
    }
    return AppendSome(*process, 1);
  }

  std::unique_ptr<StoreProcess> StartProcess() {
    StoreProcess::Options options;
    options.seed = random_.Next();
    options.before = [this](const SimOperation& operation) { return images_.Before(operation); };
    options.after = [this](const SimOperation& operation) { return images_.After(operation); };
    return std::make_unique<StoreProcess>(scheduler_, disk_, options);
  }

  // The successor claims by its first append; the predecessor notices at its own.
  Status TakeOver(StoreProcess& predecessor, StoreProcess& successor) {
    ARROW_RETURN_NOT_OK(successor.Open(kStore));
    ARROW_RETURN_NOT_OK(AppendSome(successor, 1));
    ARROW_RETURN_NOT_OK(CheckWaiting());
    const KeyedRows rows = NextRows("zombie");
    expectations_.Sent(rows);
    const auto refused = predecessor.Append(kStore, rows);
    if (!Is(refused.status(), ErrorKind::kFenced))
      return Error(ErrorKind::kInternal, "the predecessor is not fenced: {}",
                   refused.status().ToString());
    return CheckWaiting();
  }

  KeyedRows NextRows(std::string_view client) {
    KeyedRows rows(1 + random_.Below(4));
    for (auto& [key, value] : rows) {
      key = fmt::format("{}-{}", client, random_.Below(kKeysPerClient));
      value = ++last_value_;
    }
    return rows;
  }

  // Appends that run at once, each of a client of its own.
  Status AppendSome(StoreProcess& process, int count) {
    auto answers = std::make_shared<std::vector<Status>>();
    for (int client = 0; client < count; ++client) {
      const KeyedRows rows = NextRows(fmt::format("client{}", client));
      const size_t append = expectations_.Sent(rows);
      process.table(kStore)
          .Append({memwal::testing::UserBatch(rows)}, {})
          .Then(*process.env().storage,
                [this, answers, append](const Result<engine::AppendReceipt>& receipt) {
                  if (receipt.ok()) expectations_.Acknowledged(append, receipt->position.value());
                  answers->push_back(receipt.status());
                });
    }
    scheduler_.RunUntil([&] { return answers->size() == static_cast<size_t>(count); });
    if (answers->size() != static_cast<size_t>(count))
      return Error(ErrorKind::kDeadline, "an append never ended");
    for (const Status& answer : *answers) ARROW_RETURN_NOT_OK(answer);
    return Status::OK();
  }

  Status CheckWaiting() {
    for (; !images_.waiting().empty(); images_.waiting().pop_front()) {
      if (passed_over_++ % tests::kCrashStateStride != 0) continue;
      ++reopened_;
      const CrashImage& image = images_.waiting().front();
      const std::string problem = CheckState(image);
      if (problem.empty()) continue;
      problem_ = fmt::format("crash {}: {}", image.label, problem);
      return Error(ErrorKind::kInternal, "{}", problem_);
    }
    return Status::OK();
  }

  env::SimRandom random_;
  env::SimScheduler scheduler_;
  SimDisk disk_;
  Expectations expectations_;
  CrashImages images_;
  std::map<std::string, memwal::CleanUpState> clean_up_;
  int64_t last_value_ = 0;
  uint64_t passed_over_ = 0;
  uint64_t reopened_ = 0;
  std::string problem_;
};

TEST(CrashPoints, EveryCrashOfAWorkloadKeepsWhatWasPromised) {
  const uint64_t first = tests::SeedFor("CrashPoints");
  for (uint64_t i = 0; i < tests::kCrashWorkloads; ++i) {
    const uint64_t seed = first + i;
    Workload workload(seed);
    const std::string problem = workload.Run();
    workload.PrintCounts();
    ASSERT_EQ(problem, "") << "replay with SARISSA_SEED=" << seed
                           << " crash_points_test --gtest_filter='CrashPoints.*'";
  }
}

}  // namespace
}  // namespace sarissa::simulation
