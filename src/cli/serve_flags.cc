#include "cli/serve_flags.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <chrono>
#include <cstdlib>
#include <limits>

namespace sarissa::cli {
namespace {

const CLI::Validator kCount = CLI::Range(uint64_t{0}, std::numeric_limits<uint64_t>::max());
constexpr char kNoEffect[] = "Accepted for compatibility, no effect in this version";
constexpr char kIgnoredGroup[] = "Accepted, without effect";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ServeFlags::ServeFlags(CLI::App& app, ServeOptions& options) : options_(options) {
  AddServing(app);
  AddStorage(app);
  AddWithoutEffect(app);
}

void ServeFlags::AddServing(CLI::App& app) {
  app.add_option("--host", options_.http.host, "Address to listen on")->capture_default_str();
  app.add_option("--port", options_.http.port, "TCP port; 0 picks a free one and logs it")
      ->capture_default_str();
  app.add_option("--io-threads", options_.http.io_threads, "Threads that serve sockets")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--storage-threads", options_.storage_threads,
                 "Threads for file and network calls")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--cpu-threads", options_.cpu_threads,
                 "Threads that decode and encode; 0 is one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--max-connections", options_.http.max_connections, "Open connections at most")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--request-body-idle-timeout-secs", options_.body_idle_timeout_secs,
                 "A request body that stops coming for this long gets 408")
      ->envname("REQUEST_BODY_IDLE_TIMEOUT_SECS")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86400}))
      ->capture_default_str();
  app.add_option("--http-shutdown-response-idle-secs", options_.response_idle_secs,
                 "A client that takes nothing of its response for this long is cut off")
      ->envname("HTTP_SHUTDOWN_RESPONSE_IDLE_SECS")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86400}))
      ->capture_default_str();
  app.add_option("--shutdown-deadline-secs", options_.shutdown_deadline_secs,
                 "Time for flushing all stores at shutdown")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86400}))
      ->capture_default_str();
  app.add_option("--log-level", options_.log_level, "debug, info, warn, error or off")
      ->envname("RUST_LOG")
      ->capture_default_str();
}

void ServeFlags::AddStorage(CLI::App& app) {
  app.add_option("--data-dir", options_.data_dir, "Directory of the stores; made when missing")
      ->capture_default_str();
  app.add_option("--instance-id", options_.instance_id,
                 "Names the shard this process writes; two live processes must not share one. "
                 "Else $HOSTNAME, else 'default'")
      ->envname("INSTANCE_ID");
  app.add_option(
         "--memory-limit", options_.memory_limit,
         "Memory for requests and memtables (512MB, 4GB); 0 is half of what the process may use. "
         "Over it callers get 503")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--memory-wait-secs", options_.memory_wait_secs,
                 "How long a request waits for memory before it gets 503")
      ->check(CLI::Range(uint64_t{0}, uint64_t{86400}))
      ->capture_default_str();
  app.add_option("--log-sync", options_.log_sync,
                 "always: an acknowledged row survives power loss. none: for scratch data")
      ->check(CLI::IsMember({"always", "none"}))
      ->capture_default_str();
  app.add_option(
         "--rollout-flush-interval-secs", options_.flush_interval_secs,
         "Rows are flushed to a generation at this age; 0 flushes by size and at shutdown only")
      ->envname("ROLLOUT_FLUSH_INTERVAL_SECS")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 31))
      ->capture_default_str();
  app.add_option("--flush-fail-deadline-secs", options_.flush_fail_deadline_secs,
                 "A flush that keeps failing for this long fails its shard")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 31))
      ->capture_default_str();
  app.add_option("--rollout-cache-capacity", options_.cache_capacity,
                 "Stores that are open at once, at most; the least recently used leaves first")
      ->envname("ROLLOUT_CACHE_CAPACITY")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--memtable-bytes", options_.memtable_bytes, "A memtable of this size is flushed")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{64} << 10, uint64_t{1} << 40))
      ->capture_default_str();
}

void ServeFlags::AddIgnored(CLI::App& app, const std::string& flag, const std::string& variable,
                            const CLI::Validator& check) {
  CLI::Option* option = app.add_option(flag, kNoEffect)->check(check)->group(kIgnoredGroup);
  if (!variable.empty()) option->envname(variable);
  ignored_.push_back(option);
}

void ServeFlags::AddWithoutEffect(CLI::App& app) {
  for (const char* name :
       {"rollout-cleanup-interval-secs", "rollout-cleanup-min-generations",
        "rollout-merge-after-generations", "rollout-merge-max-generations",
        "rollout-merge-max-bytes", "rollout-merge-memory-bytes", "rollout-merge-concurrency",
        "rollout-wal-pending-warn-generations", "rollout-wal-pending-max-generations",
        "rollout-cache-bytes", "rollout-max-inflight-blob-bytes", "rollout-large-blob-log-bytes",
        "merge-execution-timeout-secs", "merge-queue-timeout-secs", "merge-idle-timeout-secs"}) {
    std::string variable(name);
    for (char& c : variable) {
      c = c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    AddIgnored(app, std::string("--") + name, variable, kCount);
  }
  AddIgnored(app, "--rollout-key-index-type", "ROLLOUT_KEY_INDEX_TYPE",
             CLI::IsMember({"btree", "zonemap"}));
  AddIgnored(app, "--etcd-endpoints", "ETCD_ENDPOINTS", CLI::Validator());
  AddIgnored(app, "--etcd-prefix", "ETCD_PREFIX", CLI::Validator());
  AddIgnored(app, "--etcd-user", "ETCD_USER", CLI::Validator());
  AddIgnored(app, "--etcd-password", "ETCD_PASSWORD", CLI::Validator());
  AddIgnored(app, "--merge-owned-targets", "MERGE_OWNED_TARGETS", CLI::Validator());
}

void ServeFlags::Finish() {
  if (options_.instance_id.empty()) options_.instance_id = Variable("HOSTNAME");
  if (options_.instance_id.empty()) options_.instance_id = "default";
  options_.http.body_idle_timeout = std::chrono::seconds(options_.body_idle_timeout_secs);
  options_.http.memory_wait = std::chrono::seconds(options_.memory_wait_secs);
  options_.http.write_stall_timeout = std::chrono::seconds(options_.response_idle_secs);
  options_.without_effect.clear();
  for (const CLI::Option* option : ignored_) {
    if (option->count() > 0) options_.without_effect.push_back(option->get_name());
  }
}

}  // namespace sarissa::cli
