// The HTTP server: a listener, its io threads, its connections.
//
//   Start -> serving -> Drain() (stops accepting, lets requests in flight end) -> destructor.
//
// Start and Drain block and are called from main() or a test, never from an io thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/catalog.h"
#include "env/env.h"
#include "server/options.h"
#include "server/prometheus_metrics.h"

namespace sarissa::server {

class Server {
 public:
  // All references outlive the server. Errors: kInvalid for a host that is no address, kIo when the
  // port cannot be had.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, const env::Env& env,
                                               engine::Catalog& catalog,
                                               PrometheusMetrics& metrics);
  // Ends connections that are still open without an answer.
  ~Server();

  uint16_t port() const;
  std::string address() const;

  // From here on new requests get 503 DRAINING. Returns when every request in flight has its
  // answer: each of their waits is bounded by the timeouts of the options.
  Status Drain();

 private:
  class State;
  explicit Server(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace sarissa::server
