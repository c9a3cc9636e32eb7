// Closed-loop append load: N clients on one thread, each with one request in flight, against a
// running server. It creates the stores, sends through a warm-up and a measured window, and
// afterwards compares what the server lists with what it acknowledged; a run in which those differ
// is void (exit code 1).
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/system/system_error.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include "append_request.h"
#include "http_client.h"
#include "latency_histogram.h"
#include "load_options.h"
#include "row_ledger.h"

namespace sarissa::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr int kErrorsShown = 3;
constexpr int kReconnects = 20;
constexpr size_t kErrorTextLimit = 500;

// Without the source position that Boost adds to what().
std::string Describe(const std::exception& error) {
  const auto* system = dynamic_cast<const boost::system::system_error*>(&error);
  return system ? system->code().message() : error.what();
}

class LoadRun {
 public:
  explicit LoadRun(const LoadOptions& options)
      : options_(options),
        server_(asio::ip::make_address(options.host), options.port),
        ledger_(options.clients) {}

  // Runs to the end; false when the check failed.
  bool Run();

 private:
  struct Window {
    Clock::time_point begin;
    Clock::time_point end;
  };

  int Stores() const { return options_.store_per_client ? options_.clients : 1; }
  std::string StoreName(int store) const {
    return fmt::format("{}-{}", options_.store_prefix, store);
  }
  std::string Host() const { return fmt::format("{}:{}", options_.host, options_.port); }

  void PrepareRequests();
  asio::awaitable<void> CreateStores();
  asio::awaitable<void> RunClient(int client);
  asio::awaitable<void> SendUntilEnd(HttpClient& http, AppendRequests& requests, int client);
  asio::awaitable<void> ListStores();
  void Spawn(asio::awaitable<void> task);
  void RunToEnd();
  void CountError(Clock::time_point when, std::string_view what);
  bool Report() const;

  LoadOptions options_;
  asio::ip::tcp::endpoint server_;
  asio::io_context io_{1};
  RowLedger ledger_;
  std::vector<AppendRequests> requests_of_;  // by client
  Window window_;
  LatencyHistogram latencies_;
  uint64_t requests_ = 0;  // answered with 2xx within the window
  uint64_t errors_ = 0;    // from the first request on, the warm-up too
  std::exception_ptr failure_;
};

void LoadRun::Spawn(asio::awaitable<void> task) {
  asio::co_spawn(io_, std::move(task), [this](const std::exception_ptr& failure) {
    if (failure && !failure_) failure_ = failure;
  });
}

void LoadRun::RunToEnd() {
  io_.run();
  io_.restart();
  if (failure_) std::rethrow_exception(failure_);
}

void LoadRun::CountError(Clock::time_point when, std::string_view what) {
  if (errors_++ >= kErrorsShown) return;
  const std::chrono::duration<double> at = when - window_.begin;
  fmt::print(stderr, "error at {:.3f} s: {}\n", at.count(), what.substr(0, kErrorTextLimit));
}

void LoadRun::PrepareRequests() {
  for (int client = 0; client < options_.clients; ++client) {
    requests_of_.emplace_back(
        RequestOptions{.host = Host(),
                       .store = StoreName(options_.store_per_client ? client : 0),
                       .workload = options_.workload,
                       .rows = options_.rows_per_request,
                       .client = static_cast<uint32_t>(client)});
  }
}

asio::awaitable<void> LoadRun::CreateStores() {
  HttpClient http(io_.get_executor(), server_);
  co_await http.Connect();
  for (int store = 0; store < Stores(); ++store) {
    const std::string body = fmt::format(R"({{"name":"{}"}})", StoreName(store));
    const std::string request = fmt::format(
        "POST /api/v1/rollouts HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n\r\n{}",
        Host(), body.size(), body);
    std::string answer;
    const int status =
        co_await http.Exchange(request, [&](std::string_view piece) { answer += piece; });
    if (status != 201) {
      throw std::runtime_error(
          fmt::format("store {} not created: {} {}", StoreName(store), status, answer));
    }
  }
}

asio::awaitable<void> LoadRun::RunClient(int client) {
  AppendRequests& prepared = requests_of_[static_cast<size_t>(client)];
  HttpClient http(io_.get_executor(), server_);
  for (int attempt = 0;; ++attempt) {
    std::string failure;
    try {
      co_await http.Connect();
      co_await SendUntilEnd(http, prepared, client);
      co_return;
    } catch (const std::exception& error) {
      failure = Describe(error);
    }
    CountError(Clock::now(), failure);
    if (attempt == kReconnects)
      throw std::runtime_error("the server cannot be reached: " + failure);
  }
}

asio::awaitable<void> LoadRun::SendUntilEnd(HttpClient& http, AppendRequests& requests,
                                            int client) {
  std::string answer;
  const HttpClient::BodySink sink = [&answer](std::string_view piece) { answer += piece; };
  for (Clock::time_point started = Clock::now(); started < window_.end;) {
    const uint64_t first = ledger_.Take(client, options_.rows_per_request);
    answer.clear();
    const int status = co_await http.Exchange(requests.Next(first), sink);
    const Clock::time_point answered = Clock::now();
    if (status >= 200 && status < 300) {
      ledger_.Settle(client, first, options_.rows_per_request, RowOutcome::kAcknowledged);
      if (answered >= window_.begin && answered < window_.end) {
        ++requests_;
        latencies_.Record(static_cast<uint64_t>((answered - started).count()));
      }
    } else {
      if (status < 500)
        ledger_.Settle(client, first, options_.rows_per_request, RowOutcome::kRefused);
      CountError(answered, fmt::format("{} {}", status, answer));
    }
    started = answered;
  }
}

asio::awaitable<void> LoadRun::ListStores() {
  HttpClient http(io_.get_executor(), server_);
  co_await http.Connect();
  for (int store = 0; store < Stores(); ++store) {
    uint64_t offset = 0;
    while (true) {
      const std::string request = fmt::format(
          "GET /api/v1/rollouts/{}/records?limit={}&offset={} HTTP/1.1\r\nHost: {}\r\n\r\n",
          StoreName(store), options_.list_rows, offset, Host());
      IdScanner ids(ledger_);
      std::string begin;
      const int status = co_await http.Exchange(request, [&](std::string_view piece) {
        if (begin.size() < kErrorTextLimit) begin += piece.substr(0, kErrorTextLimit);
        ids.Feed(piece);
      });
      if (status != 200) {
        throw std::runtime_error(fmt::format("list of {}: {} {}", StoreName(store), status, begin));
      }
      offset += ids.found();
      if (ids.found() < options_.list_rows) break;
    }
  }
}

bool LoadRun::Report() const {
  const RowLedger::Verdict verdict = ledger_.Judge();
  const double seconds = options_.window.count();
  const auto milliseconds = [this](double quantile) {
    return static_cast<double>(latencies_.Quantile(quantile)) / 1e6;
  };
  const uint64_t rows = requests_ * static_cast<uint64_t>(options_.rows_per_request);
  fmt::print(
      R"({{"rows":{},"requests":{},"errors":{},"seconds":{:.3f},"rows_per_second":{:.1f},)"
      R"("p50_ms":{:.4f},"p99_ms":{:.4f},"p999_ms":{:.4f},"acknowledged":{},"listed":{},"verified":{}}})"
      "\n",
      rows, requests_, errors_, seconds, static_cast<double>(rows) / seconds, milliseconds(0.5),
      milliseconds(0.99), milliseconds(0.999), verdict.acknowledged, verdict.listed,
      verdict.holds());
  if (!verdict.holds()) {
    fmt::print(stderr,
               "void: of {} acknowledged rows {} are not listed; {} are listed more than once, {} "
               "although "
               "refused, {} were never sent\n",
               verdict.acknowledged, verdict.missing, verdict.doubled, verdict.surplus,
               verdict.strangers);
  }
  return verdict.holds();
}

bool LoadRun::Run() {
  PrepareRequests();
  Spawn(CreateStores());
  RunToEnd();
  window_.begin = Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.warmup);
  window_.end = window_.begin + std::chrono::duration_cast<Clock::duration>(options_.window);
  for (int client = 0; client < options_.clients; ++client) Spawn(RunClient(client));
  RunToEnd();
  Spawn(ListStores());
  RunToEnd();
  return Report();
}

}  // namespace
}  // namespace sarissa::bench

int main(int argc, char** argv) {
  using namespace sarissa::bench;
  const LoadOptions options = ParseLoadOptions(argc, argv);
  if (options.print_records > 0) {
    for (int i = 0; i < options.print_records; ++i) {
      fmt::print("{}\n", MakeRecord(options.workload, static_cast<uint64_t>(i)));
    }
    return 0;
  }
  try {
    return LoadRun(options).Run() ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "load_generator: {}\n", Describe(error));
    return 2;
  }
}
