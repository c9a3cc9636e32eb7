#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "base/sync_point.h"
#include "cli/serve.h"

namespace {

constexpr int kUsageError = 2;

constexpr char kDescription[] =
    "Sarissa stores rollouts: the trajectories that RL trainers and agents produce.\n"
    "Every experiment is an open Lance table; rows are durable and readable once acknowledged.";

constexpr char kFooter[] =
    "Try it:\n"
    "  sarissa serve --host 127.0.0.1 --port 3000 --data-dir ./sarissa-data\n"
    "  curl -s localhost:3000/api/v1/rollouts -H 'content-type: application/json' -d "
    "'{\"name\":\"demo\"}'\n"
    "  curl -s localhost:3000/api/v1/rollouts/demo/records -H 'content-type: application/json' \\\n"
    "       -d '{\"records\":[{\"id\":\"1\",\"rollout_id\":\"r\",\"content\":\"hello\"}]}'\n"
    "  curl -s localhost:3000/api/v1/rollouts/demo/records\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage.";

// The original server has no subcommands: flags alone mean `serve`.
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (i == 1 && argument.starts_with("--") && argument != "--help" && argument != "--version") {
      arguments.emplace_back("serve");
    }
    // The parser would take the next flag for the value of "--flag=".
    const bool empty_value =
        argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    if (empty_value) argument.pop_back();
    arguments.push_back(std::move(argument));
    if (empty_value) arguments.emplace_back();
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  sarissa::SyncPoints::Instance().ArmFromEnvironment();
  CLI::App app(kDescription, "sarissa");
  app.set_version_flag("--version,-V", std::string("sarissa ") + SARISSA_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("serve", "Serve the stores of a data directory over HTTP");
  serve->footer(
      "SIGTERM or SIGINT drains: requests in flight end, every store is flushed. A second signal "
      "ends at once.");
  sarissa::cli::ServeOptions options;
  sarissa::cli::ServeFlags flags(*serve, options);

  std::vector<std::string> arguments = Arguments(argc, argv);
  if (arguments.empty()) {
    std::cerr << app.help();
    return kUsageError;
  }
  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kUsageError;
  }
  flags.Finish();
  return sarissa::cli::Serve(options);
}
