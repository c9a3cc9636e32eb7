// The command line of the load generator.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "append_request.h"

namespace sarissa::bench {

struct LoadOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 3000;
  int clients = 1;
  std::chrono::duration<double> window{3.0};
  std::chrono::duration<double> warmup{0.5};
  Workload workload = Workload::kSmall;
  int rows_per_request = 1;
  bool store_per_client = false;
  std::string store_prefix = "bench";
  // Rows that one list request of the check after the run asks for.
  uint64_t list_rows = 20'000;
  // Print that many records of the workload, one a line, and send nothing.
  int print_records = 0;
};

// Ends the process with a message when the arguments are wrong or ask for help.
LoadOptions ParseLoadOptions(int argc, char** argv);

}  // namespace sarissa::bench
