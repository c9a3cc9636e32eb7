#include "env/posix/posix_random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/error.h"
#include "env/split_mix.h"

namespace sarissa::env {
namespace {

uint64_t SeedFromKernel() {
  uint64_t seed = 0;
  ssize_t got;
  do {
    got = getrandom(&seed, sizeof seed, 0);
  } while (got < 0 && errno == EINTR);
  SARISSA_CHECK(got == sizeof seed, "getrandom gave {} bytes", got);
  return seed;
}

}  // namespace

PosixRandom::PosixRandom() : state_(SeedFromKernel()) {}

uint64_t PosixRandom::Next() {
  return SplitMix(state_.fetch_add(kSplitMixStep, std::memory_order_relaxed) + kSplitMixStep);
}

}  // namespace sarissa::env
