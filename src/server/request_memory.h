// Memory for a request, waited for as long as the options say.
#pragma once

#include "server/route_context.h"

namespace sarissa::server {

// kOverloaded when there is no room within ServerOptions::memory_wait; nothing is charged then.
inline Awaitable<Result<env::Reservation>> ReserveMemory(RouteContext& context, int64_t bytes,
                                                         env::MemoryUse use, const char* what) {
  env::Future<env::MemoryBudget::SharedReservation> room = context.env.budget->ReserveWithin(
      bytes, use, what, *context.env.storage, context.options.memory_wait);
  const Result<env::MemoryBudget::SharedReservation> reservation =
      co_await Await(context.io, std::move(room));
  if (!reservation.ok()) co_return reservation.status();
  co_return std::move(**reservation);
}

}  // namespace sarissa::server
