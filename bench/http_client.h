// One keep-alive HTTP/1.1 connection that sends requests built by the caller and reads the answers,
// with Content-Length or chunked bodies. Small on purpose: what a load generator spends here the
// server on the same cores does not get. One request at a time. Failures of the connection and
// answers that are not HTTP throw boost::system::system_error or std::runtime_error; after one the
// connection has to be opened again.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sarissa::bench {

class HttpClient {
 public:
  // Receives the body piece by piece.
  using BodySink = std::function<void(std::string_view)>;

  HttpClient(const boost::asio::any_io_executor& executor,
             const boost::asio::ip::tcp::endpoint& server)
      : socket_(executor), server_(server) {}

  // Also closes a connection that is open.
  boost::asio::awaitable<void> Connect();

  // Returns the status; the body goes to the sink.
  boost::asio::awaitable<int> Exchange(std::string_view request, const BodySink& sink);

 private:
  struct Head {
    int status = 0;
    std::optional<uint64_t> content_length;
    bool chunked = false;
    bool close = false;
  };

  static Head ParseHead(std::string_view text);
  boost::asio::awaitable<void> Fill();
  boost::asio::awaitable<std::string> ReadThrough(std::string_view delimiter);
  boost::asio::awaitable<void> ReadBody(uint64_t length, const BodySink& sink);
  boost::asio::awaitable<void> ReadChunks(const BodySink& sink);
  std::string_view unread() const { return std::string_view(buffer_).substr(consumed_); }

  boost::asio::ip::tcp::socket socket_;
  boost::asio::ip::tcp::endpoint server_;
  std::string buffer_;
  size_t consumed_ = 0;  // bytes of buffer_ that earlier answers took
};

}  // namespace sarissa::bench
