// `sarissa serve`: opens the data directory, serves HTTP until SIGTERM or SIGINT, drains.
#pragma once

#include "cli/serve_flags.h"

namespace sarissa::cli {

// The exit code: 0 after a clean stop, 1 when starting failed or rows are only in the log at the
// end. A second signal ends the process at once.
int Serve(const ServeOptions& options);

}  // namespace sarissa::cli
