#include "cli/serve.h"

#include <arrow/result.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <memory>

#include "engine/catalog.h"
#include "env/posix/posix_env.h"
#include "env/posix/process_stats.h"
#include "object_store/local_store.h"
#include "rollout/record_schema.h"
#include "server/log.h"
#include "server/server.h"
#include "server/spool.h"

namespace sarissa::cli {
namespace {

using server::LogLevel;
using server::LogLine;

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

int Failed(std::string_view what, const Status& status) {
  LogLine(LogLevel::kError, what)
      .With("kind", ErrorKindName(KindOf(status)))
      .With("error", status.message());
  return 1;
}

void WarnAbout(const ServeOptions& options) {
  const auto warn = [](std::string_view event, std::string_view message) {
    LogLine(LogLevel::kWarning, event).With("message", message);
  };
  for (const std::string& flag : options.without_effect) {
    warn("flag_without_effect", flag + " is accepted and has no effect in this version");
  }
  if (options.log_sync == "none") {
    warn("log_sync_none",
         "--log-sync=none: acknowledged rows may be lost when the machine stops; for scratch data "
         "only");
  }
  if (options.flush_interval_secs == 0) {
    warn("flush_interval_zero",
         "flush interval 0: other servers see rows only after a full memtable, an eviction or a "
         "shutdown");
  }
  if (options.http.host == "0.0.0.0" || options.http.host == "::") {
    warn("no_authentication",
         "no authentication: whoever reaches this port, on any interface, may read and delete "
         "everything");
  }
}

Result<engine::CatalogOptions> CatalogOptionsFor(const ServeOptions& options) {
  engine::CatalogOptions result;
  result.uri_prefix = options.data_dir.ends_with('/') ? options.data_dir : options.data_dir + "/";
  ARROW_ASSIGN_OR_RAISE(result.schema, lance::Schema::FromArrow(*rollout::RecordSchema()));
  result.instance_id = options.instance_id;
  result.flush_interval = std::chrono::seconds(options.flush_interval_secs);
  result.flush_fail_deadline = std::chrono::seconds(options.flush_fail_deadline_secs);
  result.flush_wait = result.flush_fail_deadline + std::chrono::seconds(30);
  result.memtable_bytes = static_cast<int64_t>(options.memtable_bytes);
  result.cache_capacity = options.cache_capacity;
  return result;
}

// Runs until the server has drained; the first signal starts the drain, the second ends the
// process.
Status RunUntilSignal(server::Server& server) {
  boost::asio::io_context context;
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  env::ThreadPool drainer({.name = "drain", .threads = 1});
  Status drained;
  signals.async_wait([&](const boost::system::error_code& error, int number) {
    if (error) return;
    LogLine(LogLevel::kInfo, "draining").With("signal", int64_t{number});
    signals.async_wait([](const boost::system::error_code& again, int) {
      if (!again) _exit(130);
    });
    drainer.Post([&] {
      drained = server.Drain();
      boost::asio::post(context, [&] { signals.cancel(); });
    });
  });
  context.run();
  drainer.Stop();
  return drained;
}

// Stops everything that `server` and `catalog` do, in order.
Status Shutdown(std::unique_ptr<server::Server> server, engine::Catalog& catalog,
                env::Duration deadline) {
  server.reset();
  return catalog.Close(deadline);
}

}  // namespace

int Serve(const ServeOptions& options) {
  server::SetLogLevel(server::ParseLogLevel(options.log_level));
  WarnAbout(options);
  if (options.data_dir.find("://") != std::string::npos) {
    return Failed("start_failed",
                  Error(ErrorKind::kUnsupported,
                        "--data-dir {}: only local directories are supported", options.data_dir));
  }
  std::signal(SIGPIPE, SIG_IGN);
  server::PrometheusMetrics metrics;
  server::EventLines events;
  env::PosixEnv::Options env_options;
  env_options.storage_threads = options.storage_threads;
  env_options.cpu_threads = options.cpu_threads;
  env_options.memory_limit = options.memory_limit > 0 ? static_cast<int64_t>(options.memory_limit)
                                                      : env::MemoryOfMachine() / 2;
  env_options.sync_mode =
      options.log_sync == "none" ? env::SyncMode::kNone : env::SyncMode::kAlways;
  env_options.events = &events;
  env::PosixEnv machine(env_options, metrics);
  const env::Env& env = machine.env();

  const std::string root = WithoutTrailingSlash(options.data_dir);
  const Result<std::string> spool = server::PrepareSpoolDirectory(*env.file_system, root);
  if (!spool.ok()) return Failed("start_failed", spool.status());
  const Result<std::unique_ptr<object_store::LocalStore>> store =
      object_store::LocalStore::Open(*env.file_system, *env.random, root);
  if (!store.ok()) return Failed("start_failed", store.status());
  Result<engine::CatalogOptions> catalog_options = CatalogOptionsFor(options);
  if (!catalog_options.ok()) return Failed("start_failed", catalog_options.status());
  const Result<std::shared_ptr<engine::Catalog>> catalog =
      engine::Catalog::Open(**store, env, std::move(*catalog_options));
  if (!catalog.ok()) return Failed("start_failed", catalog.status());

  server::ServerOptions http = options.http;
  http.spool_directory = *spool;
  Result<std::unique_ptr<server::Server>> server =
      server::Server::Start(std::move(http), env, **catalog, metrics);
  if (!server.ok()) return Failed("start_failed", server.status());
  LogLine(LogLevel::kInfo, "started")
      .With("address", (*server)->address())
      .With("port", int64_t{(*server)->port()})
      .With("data_dir", options.data_dir)
      .With("instance_id", options.instance_id)
      .With("log_sync", options.log_sync)
      .With("memory_limit", env_options.memory_limit)
      .With("pid", int64_t{getpid()});

  const Status drained = RunUntilSignal(**server);
  if (!drained.ok()) Failed("drain_failed", drained);
  const Status closed =
      Shutdown(std::move(*server), **catalog, std::chrono::seconds(options.shutdown_deadline_secs));
  if (!closed.ok()) return Failed("rows_only_in_log", closed);
  LogLine(LogLevel::kInfo, "stopped");
  return drained.ok() ? 0 : 1;
}

}  // namespace sarissa::cli
