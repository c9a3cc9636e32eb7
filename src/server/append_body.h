// The body of an append request, read, charged and decoded.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "env/memory_budget.h"
#include "server/route_context.h"

namespace sarissa::server {

struct AppendBody {
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::string ids_json;  // ["a","b"]
  uint64_t count = 0;
  uint64_t payload_bytes = 0;
  env::Reservation charge;  // what the batches pin
};

// Memory is charged before the body is read (by its declared length, or as it comes). kInvalid
// names what is wrong with the body, kOverloaded says that the budget is spent; the rest of the
// body is then left unread.
Awaitable<Result<std::shared_ptr<AppendBody>>> ReadAppendBody(RouteContext& context,
                                                              Request& request);

}  // namespace sarissa::server
