#include "env/posix/process_stats.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace sarissa::env {
namespace {

// The number in the first line of a file; INT64_MAX when there is none ("max") or no such file.
int64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  int64_t limit = 0;
  return file >> limit && limit > 0 ? limit : INT64_MAX;
}

// Every group from this process's own up to the root may set a limit.
int64_t ControlGroupLimit() {
  int64_t limit = LimitIn("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  std::ifstream groups("/proc/self/cgroup");
  std::string group;
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) group = line.substr(3);
  }
  for (;;) {
    limit = std::min(limit, LimitIn("/sys/fs/cgroup" + group + "/memory.max"));
    const size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return limit;
    group.resize(slash);
  }
}

}  // namespace

int64_t MemoryOfMachine() {
  const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)};
  return std::min(physical, ControlGroupLimit());
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace sarissa::env
