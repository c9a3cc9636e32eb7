// Merges generations of one shard into its base table, for the interop tests.
//
//   merge_tool ROOT TABLE SHARD [MAX_GENERATIONS]
//
// Prints "watermark W merged M left L deleted D appended A drained N version V".
#include <cstdio>
#include <string>

#include "base/sync_point.h"
#include "env/posix/posix_env.h"
#include "memwal/merge.h"
#include "object_store/local_store.h"

namespace sarissa::memwal {
namespace {

Status Run(const std::string& root, const std::string& table, const std::string& shard,
           uint64_t max_generations) {
  env::PosixEnv env;
  ARROW_ASSIGN_OR_RAISE(const auto store, object_store::LocalStore::Open(*env.env().file_system,
                                                                         *env.env().random, root));
  MergeOptions options;
  options.store = store.get();
  options.env = &env.env();
  options.table = table;
  ARROW_ASSIGN_OR_RAISE(options.shard, ShardId::Parse(shard));
  options.max_generations = max_generations;
  MergeReport report;
  ARROW_RETURN_NOT_OK(MergeGenerations(options, report));
  fmt::print("watermark {} merged {} left {} deleted {} appended {} drained {} version {}\n",
             report.watermark, report.generations_merged, report.generations_left,
             report.rows_deleted, report.rows_appended, report.generations_drained, report.version);
  return Status::OK();
}

}  // namespace
}  // namespace sarissa::memwal

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: %s ROOT TABLE SHARD [MAX_GENERATIONS]\n", argv[0]);
    return 2;
  }
  sarissa::SyncPoints::Instance().ArmFromEnvironment();
  const auto status =
      sarissa::memwal::Run(argv[1], argv[2], argv[3], argc == 5 ? std::stoull(argv[4]) : 0);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n",
               std::string(sarissa::ErrorKindName(sarissa::KindOf(status))).c_str(),
               status.message().c_str());
  return 1;
}
