// One client connection: reads requests one after another, lets the dispatcher answer them, writes
// the answers in order.
//
// Requests that were sent ahead (pipelining) wait in the buffer. A client that goes away does not
// cancel its request: the handler runs to its end and only then the connection notices. Runs on its
// own strand; Drain() may be called from anywhere.
#pragma once

#include <atomic>
#include <memory>

#include "server/connection_io.h"
#include "server/dispatcher.h"

namespace sarissa::server {

class RequestReader;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The dispatcher outlives it.
  Connection(std::shared_ptr<ConnectionIo> io, Dispatcher& dispatcher)
      : io_(std::move(io)), dispatcher_(dispatcher), context_(dispatcher.context()) {}

  // Until the connection closes. Keeps the object alive.
  Awaitable<void> Run();

  // Shutdown has begun (context.draining is set): closes the connection if it is between requests.
  void Drain();

 private:
  // Waits for the first byte of the next request; false when the connection should close.
  Awaitable<bool> AwaitRequest();
  // Reads and answers one request; false when the connection should close.
  Awaitable<bool> Serve();
  Awaitable<bool> Respond(const Request& request, RequestReader& reader, Response& response,
                          bool keep_alive);
  Awaitable<bool> WriteStream(BodySource& source, std::string head, bool chunked);

  const std::shared_ptr<ConnectionIo> io_;
  Dispatcher& dispatcher_;
  RouteContext& context_;
  bool idle_ = false;
  // The last answer was sent while the client may still be sending.
  bool linger_ = false;
};

}  // namespace sarissa::server
