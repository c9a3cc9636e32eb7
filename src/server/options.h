// What the HTTP side needs to know. Defaults are those of the wire contract.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "env/clock.h"

namespace sarissa::server {

struct ServerOptions {
  std::string host = "0.0.0.0";
  uint16_t port = 3000;  // 0 = any free port
  // Where uploads are spooled; on the same file system as the data.
  std::string spool_directory;
  int io_threads = 2;
  // More connections than these wait in the kernel's queue.
  uint64_t max_connections = 16384;

  uint32_t header_limit = 16 << 10;
  uint32_t target_limit = 8 << 10;
  uint64_t small_body_limit = 2 << 20;
  uint64_t append_body_limit = 1 << 30;

  // How long a request waits for memory before it gets 503.
  env::Duration memory_wait = std::chrono::seconds(5);
  // From the first byte of a request to the end of its header.
  env::Duration header_timeout = std::chrono::seconds(30);
  // Between requests of one connection.
  env::Duration keep_alive_timeout = std::chrono::seconds(120);
  // Between two pieces of a request body.
  env::Duration body_idle_timeout = std::chrono::seconds(120);
  // While the client takes nothing of a response.
  env::Duration write_stall_timeout = std::chrono::seconds(120);
};

}  // namespace sarissa::server
