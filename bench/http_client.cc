#include "http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <stdexcept>

namespace sarissa::bench {
namespace {

namespace asio = boost::asio;

constexpr size_t kReadSize = 64 << 10;
constexpr size_t kHeadLimit = 64 << 10;
constexpr size_t kStatusOffset = 9;  // behind "HTTP/1.1 "

template <typename T>
T ParseNumber(std::string_view text, int base) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data()) {
    throw std::runtime_error(fmt::format("not a number in an HTTP answer: '{}'", text));
  }
  return value;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

}  // namespace

asio::awaitable<void> HttpClient::Connect() {
  socket_ = asio::ip::tcp::socket(socket_.get_executor());
  buffer_.clear();
  consumed_ = 0;
  co_await socket_.async_connect(server_, asio::use_awaitable);
  socket_.set_option(asio::ip::tcp::no_delay(true));
}

asio::awaitable<int> HttpClient::Exchange(std::string_view request, const BodySink& sink) {
  co_await asio::async_write(socket_, asio::buffer(request.data(), request.size()),
                             asio::use_awaitable);
  const Head head = ParseHead(co_await ReadThrough("\r\n\r\n"));
  if (head.chunked) {
    co_await ReadChunks(sink);
  } else if (head.content_length) {
    co_await ReadBody(*head.content_length, sink);
  } else if (head.status != 204) {
    throw std::runtime_error("an HTTP answer without Content-Length and not chunked");
  }
  if (head.close) co_await Connect();
  co_return head.status;
}

HttpClient::Head HttpClient::ParseHead(std::string_view text) {
  if (!text.starts_with("HTTP/1.") || text.size() < kStatusOffset + 3) {
    throw std::runtime_error(fmt::format("not an HTTP answer: '{}'", text.substr(0, 40)));
  }
  Head head;
  head.status = ParseNumber<int>(text.substr(kStatusOffset, 3), 10);
  for (size_t line = text.find("\r\n") + 2; line < text.size();) {
    const size_t end = text.find("\r\n", line);
    const std::string field = Lower(text.substr(line, end - line));
    line = end + 2;
    const size_t colon = field.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view name = std::string_view(field).substr(0, colon);
    std::string_view value = std::string_view(field).substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    if (name == "content-length") head.content_length = ParseNumber<uint64_t>(value, 10);
    if (name == "transfer-encoding") head.chunked = value.find("chunked") != value.npos;
    if (name == "connection") head.close = value.find("close") != value.npos;
  }
  return head;
}

asio::awaitable<void> HttpClient::Fill() {
  buffer_.erase(0, consumed_);
  consumed_ = 0;
  const size_t size = buffer_.size();
  buffer_.resize(size + kReadSize);
  const size_t count = co_await socket_.async_read_some(
      asio::buffer(buffer_.data() + size, kReadSize), asio::use_awaitable);
  buffer_.resize(size + count);
}

asio::awaitable<std::string> HttpClient::ReadThrough(std::string_view delimiter) {
  while (true) {
    const size_t found = unread().find(delimiter);
    if (found != std::string_view::npos) {
      std::string text(unread().substr(0, found + delimiter.size()));
      consumed_ += text.size();
      co_return text;
    }
    if (unread().size() > kHeadLimit) {
      throw std::runtime_error("an HTTP header of more than 64 KiB");
    }
    co_await Fill();
  }
}

asio::awaitable<void> HttpClient::ReadBody(uint64_t length, const BodySink& sink) {
  while (length > 0) {
    if (unread().empty()) co_await Fill();
    const std::string_view piece = unread().substr(0, length);
    sink(piece);
    consumed_ += piece.size();
    length -= piece.size();
  }
}

asio::awaitable<void> HttpClient::ReadChunks(const BodySink& sink) {
  while (true) {
    const auto length = ParseNumber<uint64_t>(co_await ReadThrough("\r\n"), 16);
    if (length == 0) break;
    co_await ReadBody(length, sink);
    co_await ReadThrough("\r\n");
  }
  // Trailers, then the empty line.
  while ((co_await ReadThrough("\r\n")).size() > 2) {
  }
}

}  // namespace sarissa::bench
