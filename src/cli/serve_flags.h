// The flags and environment variables of `sarissa serve`. Names and defaults are those of the
// original server where it has them; a variable that is set but empty counts as unset.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "env/clock.h"
#include "server/options.h"

namespace sarissa::cli {

struct ServeOptions {
  server::ServerOptions http;
  std::string data_dir = "./lance-data";
  std::string instance_id;
  std::string log_level = "info";
  std::string log_sync = "always";
  uint64_t memory_wait_secs = 5;
  uint64_t memory_limit = 0;  // 0 = half of what the process may use
  int storage_threads = 16;
  int cpu_threads = 0;  // 0 = one per core

  uint64_t flush_interval_secs = 30;
  uint64_t flush_fail_deadline_secs = 60;
  uint64_t memtable_bytes = 64 << 20;
  uint64_t cache_capacity = 2000;
  uint64_t shutdown_deadline_secs = 60;
  uint64_t body_idle_timeout_secs = 120;
  uint64_t response_idle_secs = 120;

  // Flags that were given and do nothing in this version, by name.
  std::vector<std::string> without_effect;
};

// Values that only the flags' owner needs while parsing; lives as long as the app.
class ServeFlags {
 public:
  // Registers everything on `app`. Both must stay where they are until the app has parsed.
  ServeFlags(CLI::App& app, ServeOptions& options);
  ServeFlags(const ServeFlags&) = delete;
  ServeFlags& operator=(const ServeFlags&) = delete;

  // After parsing: fills what follows from other values.
  void Finish();

 private:
  void AddServing(CLI::App& app);
  void AddStorage(CLI::App& app);
  void AddWithoutEffect(CLI::App& app);
  void AddIgnored(CLI::App& app, const std::string& flag, const std::string& variable,
                  const CLI::Validator& check);

  ServeOptions& options_;
  std::vector<CLI::Option*> ignored_;
};

}  // namespace sarissa::cli
