#include "tests/crash/duel_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "lance/table/table.h"
#include "memwal/names.h"
#include "memwal/shard_log.h"
#include "memwal/shard_manifest.h"
#include "tests/memwal/rows.h"

namespace sarissa::duel {
namespace {

using memwal::AppendResult;
using memwal::ShardWriter;
using memwal::WriterState;

constexpr char kTable[] = "t";
constexpr uint64_t kMostSteps = 200'000;

void AddKeys(const arrow::RecordBatch& batch, std::multiset<std::string>& keys) {
  const auto& ids = static_cast<const arrow::StringArray&>(*batch.column(0));
  for (int64_t row = 0; row < batch.num_rows(); ++row) keys.insert(ids.GetString(row));
}

std::string_view ActName(Act act) {
  switch (act) {
    case Act::kOpen:
      return "open";
    case Act::kAppend:
      return "append";
    case Act::kTwoAppends:
      return "two appends";
    case Act::kSeal:
      return "seal";
    case Act::kCleanUp:
      return "clean-up";
    case Act::kClose:
      return "close";
  }
  return "?";
}

}  // namespace

DuelWorld::DuelWorld(const Duel& duel, Chooser& chooser, uint64_t seed)
    : duel_(duel), scheduler_(seed), seeds_(seed), turnstile_(scheduler_, chooser, duel.faults) {
  disk_.RecordOperations(false);
}

DuelWorld::~DuelWorld() {
  for (const auto& fighter : fighters_) {
    fighter->process->Kill();
    fighter->writer.reset();
  }
}

bool DuelWorld::MayFail() const {
  return duel_.faults.lost_answers > 1 || duel_.faults.kills > 0;
}

DuelWorld::Fighter& DuelWorld::AddFighter(std::vector<Act> script) {
  auto added = std::make_unique<Fighter>();
  Fighter& fighter = *added;
  fighter.number = static_cast<int>(fighters_.size());
  env::SimEnv::Options options;
  options.seed = seeds_.Next();
  options.storage_workers = 2;
  fighter.process = std::make_unique<env::SimEnv>(scheduler_, disk_, options);
  const auto die = [this, &fighter] {
    fighter.killed = true;
    fighter.process->Kill();
    scheduler_.EndIfKilled();
  };
  fighter.store =
      std::make_unique<DuelStore>(store_, turnstile_, fighter.number, authors_, std::move(die));
  fighter.script = std::move(script);
  fighters_.push_back(std::move(added));
  return fighter;
}

memwal::ShardOptions DuelWorld::Options(const Fighter& fighter) const {
  static const lance::Schema schema = memwal::testing::KeyedStorage();
  memwal::ShardOptions options;
  options.store = fighter.store.get();
  options.env = &fighter.process->env();
  options.table = kTable;
  options.shard = shard_;
  options.storage_schema = schema;
  options.memtable_rows = duel_.memtable_rows;
  // Far below a turn of the turnstile.
  options.log_retry_delay = std::chrono::nanoseconds(1);
  options.flush_retry_delay = std::chrono::nanoseconds(1);
  options.flush_retry_delay_max = std::chrono::nanoseconds(1);
  return options;
}

env::Future<AppendResult> DuelWorld::Send(Fighter& fighter) {
  const std::string key = fmt::format("w{}-r{}", fighter.number, fighter.appends.size());
  auto answer = fighter.writer->Append({memwal::testing::StorageBatch({{key, 1}})}, {});
  fighter.appends.push_back({key, answer});
  return answer;
}

// Runs the acts until one has to be waited for.
void DuelWorld::Continue(Fighter& fighter) {
  if (fighter.next_act == fighter.script.size()) {
    fighter.ended = true;
    return;
  }
  const Act act = fighter.script[fighter.next_act++];
  switch (act) {
    case Act::kOpen: {
      auto writer = ShardWriter::Open(Options(fighter));
      fighter.opened = writer.status();
      if (writer.ok()) {
        fighter.writer = *std::move(writer);
      } else {
        fighter.next_act = fighter.script.size();
      }
      return Continue(fighter);
    }
    case Act::kAppend:
      return AppendRows(fighter, 1);
    case Act::kTwoAppends:
      return AppendRows(fighter, 2);
    case Act::kSeal:
      return Seal(fighter);
    case Act::kCleanUp:
      CleanUp(fighter);
      return Continue(fighter);
    case Act::kClose: {
      const auto report = fighter.writer->Close();
      fighter.closes.push_back(report);
      report.Then(*fighter.process->env().storage,
                  [this, &fighter](const auto&) { Continue(fighter); });
      return;
    }
  }
}

void DuelWorld::AppendRows(Fighter& fighter, int count) {
  auto missing = std::make_shared<int>(count);
  for (int i = 0; i < count; ++i) {
    Send(fighter).Then(*fighter.process->env().storage, [this, &fighter, missing](const auto&) {
      if (--*missing == 0) Continue(fighter);
    });
  }
}

void DuelWorld::Seal(Fighter& fighter) {
  std::set<std::string> covered;
  for (const SentAppend& append : fighter.appends) {
    if (append.answer.IsReady() && append.answer.Get().ok()) covered.insert(append.key);
  }
  const auto outcome = fighter.writer->Seal().Wait(*fighter.process->env().storage);
  fighter.seals.push_back(outcome);
  outcome.Then(*fighter.process->env().storage, [this, &fighter, covered](const auto& flushed) {
    if (flushed.ok()) fighter.sealed.insert(covered.begin(), covered.end());
    Continue(fighter);
  });
}

void DuelWorld::CleanUp(Fighter& fighter) {
  memwal::CleanUpOptions options;
  options.store = fighter.store.get();
  options.clock = fighter.process->env().clock;
  options.table = kTable;
  options.shard = shard_;
  memwal::CleanUpReport report;
  fighter.clean_ups.push_back(memwal::CleanUpShard(options, fighter.clean_up_state, report));
}

std::string DuelWorld::Run() {
  for (const auto& script : duel_.scripts) AddFighter(script);
  if (duel_.first_is_incumbent) {
    Fighter& incumbent = *fighters_.front();
    auto rest = std::exchange(incumbent.script, {Act::kOpen, Act::kAppend});
    incumbent.process->env().storage->Post([this, &incumbent] { Continue(incumbent); });
    scheduler_.RunUntilIdle(kMostSteps);
    if (!incumbent.ended) return "the incumbent did not get ready";
    rest.erase(rest.begin());
    incumbent.script = std::move(rest);
    incumbent.next_act = 0;
    incumbent.ended = false;
  }
  turnstile_.Close();
  for (const auto& fighter : fighters_) {
    fighter->process->env().storage->Post([this, &one = *fighter] { Continue(one); });
  }
  const bool idle = scheduler_.RunUntilIdle(kMostSteps);
  turnstile_.Open();
  if (turnstile_.redundant()) return "";
  if (!idle) return "it does not end";

  std::string problem = CheckAnswers();
  if (problem.empty()) problem = CheckAuthors();
  if (problem.empty()) problem = CheckLog();
  if (!problem.empty()) return problem;
  Fighter& heir = AddFighter({});
  auto opened = ShardWriter::Open(Options(heir));
  if (!opened.ok()) return "the next open fails: " + opened.status().ToString();
  heir.writer = *std::move(opened);
  const auto remains = Look(heir);
  if (!remains.ok()) return "the next open cannot read: " + remains.status().ToString();
  problem = CheckRows(*remains);
  return problem.empty() ? CheckAfterlife(heir) : problem;
}

std::string DuelWorld::CheckAnswers() const {
  const memwal::ShardManifestStore manifests(const_cast<object_store::MemoryStore&>(store_), kTable,
                                             shard_);
  const auto newest = manifests.ReadNewest();
  if (!newest.ok()) return "the newest manifest: " + newest.status().ToString();
  const uint64_t epoch = *newest ? (*newest)->writer_epoch() : 0;
  for (const auto& fighter : fighters_) {
    if (fighter->killed) continue;
    if (!fighter->ended) {
      return fmt::format("writer {} waits for ever in its {}", fighter->number,
                         ActName(fighter->script[fighter->next_act - 1]));
    }
    const bool owner = fighter->writer != nullptr && fighter->writer->epoch().value() == epoch;
    std::string problem = CheckErrors(*fighter, owner);
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string DuelWorld::CheckErrors(const Fighter& fighter, bool owner) const {
  const auto check = [&](const char* what, const Status& status) -> std::string {
    if (status.ok()) return "";
    const bool closed = !fighter.closes.empty() && Is(status, ErrorKind::kCancelled);
    if (!MayFail() && owner && !closed)
      return fmt::format("{} of the owner, writer {}, fails: {}", what, fighter.number,
                         status.ToString());
    if (!MayFail() && !closed && !Is(status, ErrorKind::kFenced))
      return fmt::format("{} of writer {} is not fenced but {}", what, fighter.number,
                         status.ToString());
    return "";
  };
  // An open or a clean-up may end by a lost answer of its own; the caller tries again.
  const auto unanswered = [&](const Status& status) {
    return duel_.faults.lost_answers > 0 && Is(status, ErrorKind::kOutcomeUnknown);
  };
  std::string problem = unanswered(fighter.opened) ? "" : check("the open", fighter.opened);
  for (const SentAppend& append : fighter.appends) {
    if (!append.answer.IsReady()) return append.key + " is never answered";
    if (problem.empty()) problem = check("an append", append.answer.Get().status());
  }
  for (const auto& seal : fighter.seals) {
    if (!seal.IsReady()) return fmt::format("a seal of {} is never answered", fighter.number);
    if (problem.empty()) problem = check("a seal", seal.Get().status());
  }
  for (const Status& clean_up : fighter.clean_ups) {
    if (problem.empty() && !unanswered(clean_up)) problem = check("a clean-up", clean_up);
  }
  for (const auto& close : fighter.closes) {
    if (!close.IsReady()) return fmt::format("a close of {} is never answered", fighter.number);
    if (problem.empty() && close.Get().ok()) problem = check("a close", close.Get()->cause);
  }
  return problem;
}

std::string DuelWorld::CheckAuthors() const {
  for (const auto& [name, writers] : authors_) {
    if (writers.size() != 1) return fmt::format("C7: {} puts of {} landed", writers.size(), name);
  }
  return "";
}

Result<LogPosition> DuelWorld::Cursor() {
  const memwal::ShardManifestStore manifests(store_, kTable, shard_);
  ARROW_ASSIGN_OR_RAISE(const auto newest, manifests.ReadNewest());
  return LogPosition(newest ? newest->replay_after_wal_entry_position() : 0);
}

std::string DuelWorld::CheckLog() {
  memwal::ShardLog log(store_, kTable, shard_);
  const auto positions = log.List();
  if (!positions.ok()) return positions.status().ToString();
  const auto cursor = Cursor();
  if (!cursor.ok()) return cursor.status().ToString();
  std::map<LogPosition, std::multiset<std::string>> keys;
  Epoch last;
  for (const LogPosition position : *positions) {
    const auto entry = log.Read(position);
    if (!entry.ok()) return entry.status().ToString();
    for (const auto& batch : (*entry)->batches) AddKeys(*batch, keys[position]);
    // What a writer of ours puts where the log was cleaned is never acknowledged and never
    // replayed.
    if ((*entry)->sentinel || position <= *cursor) continue;
    if ((*entry)->epoch < last) return fmt::format("C7: entry {} is of an older epoch", position);
    last = (*entry)->epoch;
  }
  for (const auto& fighter : fighters_) {
    for (const SentAppend& append : fighter->appends) {
      if (!append.answer.IsReady() || !append.answer.Get().ok()) continue;
      const AppendResult& result = *append.answer.Get();
      const bool cleaned = result.position <= *cursor && !keys.contains(result.position);
      if (!cleaned && keys[result.position].count(append.key) != 1)
        return fmt::format("S1: {} is not in entry {}", append.key, result.position);
      if (result.epoch != fighter->writer->epoch()) return append.key + " names another epoch";
    }
  }
  return "";
}

Result<DuelWorld::Remains> DuelWorld::Look(Fighter& heir) {
  Remains remains;
  const memwal::ShardView view = heir.writer->View();
  for (const auto& generation : view.generations) {
    const std::string folder = memwal::ShardPrefix(kTable, shard_) + generation.path();
    ARROW_ASSIGN_OR_RAISE(const auto table,
                          lance::Table::Open({&store_, &heir.process->env()}, folder));
    ARROW_ASSIGN_OR_RAISE(auto stream, table->Scan({}));
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
      if (batch == nullptr) break;
      AddKeys(*batch, remains.in_generations);
    }
  }
  for (const auto& memtable : view.memtables) {
    for (const auto& held : memtable.batches()) AddKeys(*held->batch, remains.in_memtables);
  }
  return remains;
}

std::string DuelWorld::CheckRows(const Remains& remains) const {
  std::set<std::string> sent;
  for (const auto& fighter : fighters_) {
    for (const SentAppend& append : fighter->appends) {
      sent.insert(append.key);
      const size_t copies =
          remains.in_generations.count(append.key) + remains.in_memtables.count(append.key);
      if (copies > 1) return fmt::format("C3: {} is there {} times", append.key, copies);
      const bool acknowledged = append.answer.IsReady() && append.answer.Get().ok();
      if (acknowledged && copies == 0)
        return fmt::format("C1: {} was acknowledged and is gone", append.key);
    }
    for (const std::string& key : fighter->sealed) {
      if (!remains.in_generations.contains(key))
        return fmt::format("C8: {} was sealed and is in no generation", key);
    }
  }
  for (const auto* rows : {&remains.in_generations, &remains.in_memtables}) {
    for (const std::string& key : *rows) {
      if (!sent.contains(key)) return fmt::format("C2: {} was never sent", key);
    }
  }
  return "";
}

// Everybody is fenced now but the heir.
std::string DuelWorld::CheckAfterlife(Fighter& heir) {
  std::vector<std::pair<int, env::Future<AppendResult>>> late;
  for (const auto& fighter : fighters_) {
    if (fighter.get() == &heir || fighter->killed || fighter->writer == nullptr) continue;
    late.emplace_back(fighter->number, Send(*fighter));
  }
  scheduler_.RunUntilIdle(kMostSteps);
  for (const auto& [number, answer] : late) {
    if (!answer.IsReady()) return fmt::format("a late append of writer {} hangs", number);
    if (answer.Get().ok()) return fmt::format("M9: a late append of writer {} succeeds", number);
  }
  const auto own = Send(heir);
  scheduler_.RunUntilIdle(kMostSteps);
  if (!own.IsReady() || !own.Get().ok())
    return "the next owner cannot append: " + (own.IsReady() ? own.Get().status().ToString() : "");
  return "";
}

}  // namespace sarissa::duel
