// What the operating system says about this machine and this process. Thread safe.
#pragma once

#include <cstdint>

namespace sarissa::env {

// Memory this process may use: the machine's, or the limit of its control group (v2 or v1) where
// that is lower.
int64_t MemoryOfMachine();

// Resident set of this process, 0 when it cannot be read.
int64_t ResidentBytes();

}  // namespace sarissa::env
