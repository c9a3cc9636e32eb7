// A client that speaks HTTP byte by byte, so that tests can send what no library would. Every wait
// has a deadline: a read that does not end in time fails the test and does not hang it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cctype>
#include <map>
#include <string>
#include <string_view>

namespace sarissa::server {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;
  bool whole = false;  // false when the connection ended inside it

  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(context_) {
    socket_.connect({boost::asio::ip::address_v4::loopback(), port});
    const timeval timeout{20, 0};
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  }

  // False when the server closed first.
  bool Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.native_handle(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  void FinishSending() { socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send); }

  // Status 0 when the connection ended before a response.
  RawResponse Read(bool head_request = false) {
    RawResponse response;
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
      const std::string byte = Take(1);
      if (byte.empty()) return response;
      head += byte;
    }
    ParseHead(head, response);
    if (response.status == 100 || response.status == 204 || head_request) {
      response.whole = true;
    } else if (response.Header("transfer-encoding") == "chunked") {
      ReadChunks(response);
    } else if (response.headers.contains("content-length")) {
      const size_t length = std::stoul(response.Header("content-length"));
      response.body = Take(length);
      response.whole = response.body.size() == length;
    } else {
      while (More()) {
      }
      response.body = std::move(buffer_);
      buffer_.clear();
      response.whole = true;
    }
    return response;
  }

  RawResponse Call(std::string_view request) {
    Send(request);
    return Read(request.starts_with("HEAD"));
  }

  // True when the server has closed and nothing more comes.
  bool AtEnd() { return buffer_.empty() && !More() && !timed_out_; }

 private:
  static void ParseHead(const std::string& head, RawResponse& response) {
    response.status = std::stoi(head.substr(9, 3));
    size_t at = head.find("\r\n") + 2;
    while (head.compare(at, 2, "\r\n") != 0) {
      const size_t end = head.find("\r\n", at);
      const size_t colon = head.find(": ", at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      response.headers[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
  }

  void ReadChunks(RawResponse& response) {
    for (;;) {
      std::string line;
      while (!line.ends_with("\r\n")) {
        const std::string byte = Take(1);
        if (byte.empty()) return;
        line += byte;
      }
      const size_t size = std::stoul(line, nullptr, 16);
      const std::string chunk = Take(size + 2);
      if (chunk.size() != size + 2) return;
      response.body += chunk.substr(0, size);
      if (size == 0) {
        response.whole = true;
        return;
      }
    }
  }

  // Up to `size` bytes: fewer when the connection ends.
  std::string Take(size_t size) {
    while (buffer_.size() - taken_ < size && More()) {
    }
    const std::string text = buffer_.substr(taken_, size);
    taken_ += text.size();
    if (taken_ == buffer_.size()) {
      buffer_.clear();
      taken_ = 0;
    }
    return text;
  }

  bool More() {
    char piece[65536];
    const ssize_t got = ::recv(socket_.native_handle(), piece, sizeof piece, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      timed_out_ = true;
      ADD_FAILURE() << "no answer in time";
    }
    if (got <= 0) return false;
    buffer_.append(piece, static_cast<size_t>(got));
    return true;
  }

  boost::asio::io_context context_;
  boost::asio::ip::tcp::socket socket_;
  std::string buffer_;
  size_t taken_ = 0;
  bool timed_out_ = false;
};

inline std::string Get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nhost: test\r\n\r\n";
}

inline std::string Post(std::string_view path, std::string_view body,
                        std::string_view content_type = "application/json") {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nhost: test\r\ncontent-type: " + std::string(content_type) +
         "\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace sarissa::server
