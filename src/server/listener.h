// Accepts connections and runs each on a strand of its own. Thread safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <memory>

#include "server/connection_set.h"
#include "server/dispatcher.h"

namespace sarissa::server {

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  // Binds and listens. All references outlive it.
  static Result<std::shared_ptr<Listener>> Open(boost::asio::io_context& context,
                                                Dispatcher& dispatcher, ConnectionSet& connections);

  void Start();
  // No connection is accepted after the returned future is complete.
  env::Future<env::Unit> Stop();

  boost::asio::ip::tcp::endpoint endpoint() const { return endpoint_; }

 private:
  Listener(boost::asio::io_context& context, Dispatcher& dispatcher, ConnectionSet& connections)
      : context_(context),
        dispatcher_(dispatcher),
        connections_(connections),
        acceptor_(boost::asio::make_strand(context)) {}

  Status Bind();
  Awaitable<void> Run();
  void Serve(boost::asio::ip::tcp::socket socket);

  boost::asio::io_context& context_;
  Dispatcher& dispatcher_;
  ConnectionSet& connections_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::ip::tcp::endpoint endpoint_;
};

}  // namespace sarissa::server
