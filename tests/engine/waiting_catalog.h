// The catalog's calls as a test on real threads makes them: wait for the answer.
#pragma once

#include <memory>
#include <string>

#include "engine/catalog.h"

namespace sarissa::engine::testing {

inline constexpr env::Duration kAnswerWithin = std::chrono::seconds(60);

inline Result<std::shared_ptr<Table>> FindNow(Catalog& catalog, const std::string& name) {
  return catalog.Find(name).Wait(kAnswerWithin);
}
inline Result<std::shared_ptr<Table>> CreateNow(Catalog& catalog, const std::string& name) {
  return catalog.Create(name).Wait(kAnswerWithin);
}
inline Status DeleteNow(Catalog& catalog, const std::string& name) {
  return catalog.Delete(name).Wait(kAnswerWithin).status();
}
inline Status EvictNow(Catalog& catalog, const std::string& name, env::Duration deadline) {
  return catalog.Evict(name, deadline).Wait(kAnswerWithin).status();
}

}  // namespace sarissa::engine::testing
