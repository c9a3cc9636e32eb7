#include "load_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>

namespace sarissa::bench {

LoadOptions ParseLoadOptions(int argc, char** argv) {
  LoadOptions options;
  double window = options.window.count();
  double warmup = options.warmup.count();
  CLI::App app{
      "Closed-loop append load on a running server. Prints one JSON object; exits with 1 when the "
      "rows that the server "
      "lists afterwards are not those that it acknowledged."};
  app.add_option("--host", options.host, "IP address of the server")->capture_default_str();
  app.add_option("--port", options.port)->capture_default_str();
  app.add_option("--clients", options.clients, "Connections, each with one request in flight")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  app.add_option("--seconds", window, "Length of the measured window")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup", warmup, "Seconds before the window")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  const std::map<std::string, Workload> workloads = {{"small", Workload::kSmall},
                                                     {"tokens8k", Workload::kTokens8k}};
  app.add_option("--kind", options.workload, "Rows: small (0.5 KB) or tokens8k (133 KB)")
      ->transform(CLI::CheckedTransformer(workloads));
  app.add_option("--rows-per-request", options.rows_per_request)
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  const std::map<std::string, bool> stores = {{"shared", false}, {"per-client", true}};
  app.add_option("--stores", options.store_per_client, "One store for all, or one for each client")
      ->transform(CLI::CheckedTransformer(stores));
  app.add_option("--store-prefix", options.store_prefix,
                 "The stores are PREFIX-0, PREFIX-1, ...; they must not exist")
      ->capture_default_str();
  app.add_option("--list-rows", options.list_rows, "Page size of the check after the run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--print-records", options.print_records,
                 "Print N records of the kind and send nothing");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  options.window = std::chrono::duration<double>(window);
  options.warmup = std::chrono::duration<double>(warmup);
  return options;
}

}  // namespace sarissa::bench
