// The HTTP server over cpprestsdk's listener, which this file keeps to itself. Its server part is in maintenance mode, so
// the bounds are ours:
//   - Bodies: a length must be announced (chunked bodies are refused with 411: the library gathers a chunk of any size
//     before it shows a byte), is bounded, and must have arrived by a deadline; all bodies under way have a bound together.
//   - Requests: path, query and headers are bounded once they are read. The library reads header lines without any bound
//     (100 MB of them were swallowed) and waits for them without a deadline; neither can be had from outside. Where
//     strangers can connect, a reverse proxy has to stand in front with limits such as nginx's large_client_header_buffers
//     and client_header_timeout.
//   - A slow reader of a stream is cut off at max_stream_buffer_bytes unread; its socket closes once the kernel has let go of
//     what was sent.
// Requests are answered by the library alone, with an empty 400, where it cannot make sense of the request line.
//
// Each HttpServer has a listener of its own (make_http_asio_server), not the process's shared one: that one keeps every port it
// ever opened and opens them all again with the next.
#include "rendezvous/http_server.h"

#include <arpa/inet.h>
#include <cpprest/details/http_server.h>
#include <cpprest/details/http_server_api.h>
#include <cpprest/http_listener.h>
#include <fmt/format.h>
#include <netdb.h>
#include <pplx/threadpool.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "rendezvous/http_event_stream.h"
#include "rendezvous/http_request_rules.h"

namespace web::http::experimental::details {
std::unique_ptr<http_server> make_http_asio_server();  // exported by the library, declared in none of its headers
}

namespace holdfast::rendezvous {
namespace {

namespace http = web::http;
using CpprestServer = http::experimental::details::http_server;
using CpprestListener = http::experimental::listener::details::http_listener_impl;
using std::chrono::seconds;

constexpr size_t kThreads = 8;                       // handlers never block, so a few will do
constexpr size_t kBodiesBytesMax = size_t{1} << 30;  // all bodies being received, together
constexpr auto kStopPatience = seconds(5);

// One request between its arrival and its answer. Answered exactly once, by whoever comes first: the handler, a refusal, the
// body's deadline, the end of the server, or the last handle to it being dropped.
class Exchange {
 public:
  Exchange(http::http_request request, size_t stream_bytes_max)
      : request_(std::move(request)), stream_bytes_max_(stream_bytes_max) {}
  ~Exchange() { answer(refusal(500, "no_answer", "the service dropped this request without an answer: try again")); }
  Exchange(const Exchange&) = delete;

  http::http_request& request() { return request_; }
  void answer(HttpResponse response);
  // Answers without waiting for the rest of the body, and closes the connection under it.
  void refuse(HttpResponse response);
  void cut_stream();

 private:
  void send(http::http_response& response);
  http::http_request request_;
  const size_t stream_bytes_max_;
  std::atomic<bool> answered_ = false;
  std::mutex mutex_;
  std::shared_ptr<BufferedEventStream> stream_;
};

void Exchange::send(http::http_response& response) {
  std::weak_ptr<BufferedEventStream> stream = stream_;
  try {
    request_.reply(response).then([stream](pplx::task<void> sent) {
      try {
        sent.get();
      } catch (...) {  // the client went away: nobody is left to be told
      }
      if (const auto open = stream.lock()) open->cut();
    });
  } catch (const std::exception&) {  // the server was stopped and has cut this request off
    if (stream_) stream_->cut();
  }
}

void Exchange::answer(HttpResponse response) {
  if (answered_.exchange(true)) return;
  http::http_response out(static_cast<http::status_code>(response.status));
  for (const auto& [name, value] : response.headers) out.headers()[name] = value;
  const bool head = request_.method() == http::methods::HEAD;
  if (!response.on_stream || head) {
    if (!head && !response.body.empty()) out.set_body(std::move(response.body), response.content_type);
    send(out);
    return;
  }
  const auto stream = std::make_shared<BufferedEventStream>(stream_bytes_max_);
  {
    const std::lock_guard lock(mutex_);
    stream_ = stream;
  }
  out.headers()["Cache-Control"] = "no-cache";
  out.set_body(stream->reader(), response.content_type);
  send(out);
  response.on_stream(stream);
}

void Exchange::refuse(HttpResponse response) {
  response.headers["Connection"] = "close";
  answer(std::move(response));
  // The library sends an answer only when the request's body is complete. Complete it: the answer goes out, and the close
  // that follows ends the reading.
  request_._get_impl()->_complete(0);
}

void Exchange::cut_stream() {
  const std::lock_guard lock(mutex_);
  if (stream_) stream_->cut();
}

// What a server has in common with its requests; outlives it for as long as one of them is not answered.
struct Shared {
  HttpServerOptions options;
  Handler handler;
  std::mutex mutex;
  bool stopping = false;
  std::set<std::weak_ptr<Exchange>, std::owner_less<>> open;
  size_t body_bytes = 0;  // announced by requests whose body is under way

  bool enter(const std::shared_ptr<Exchange>& exchange) {
    const std::lock_guard lock(mutex);
    std::erase_if(open, [](const auto& entry) { return entry.expired(); });
    if (!stopping) open.insert(exchange);
    return !stopping;
  }
  bool reserve(size_t bytes) {
    const std::lock_guard lock(mutex);
    if (body_bytes + bytes > kBodiesBytesMax) return false;
    body_bytes += bytes;
    return true;
  }
  void give_back(size_t bytes) {
    const std::lock_guard lock(mutex);
    body_bytes -= bytes;
  }
};

using SharedPtr = std::shared_ptr<Shared>;
using ExchangePtr = std::shared_ptr<Exchange>;

void hand_over(const SharedPtr& shared, const ExchangePtr& exchange, HttpRequest request) {
  try {
    shared->handler(std::move(request), [exchange](HttpResponse response) { exchange->answer(std::move(response)); });
  } catch (const std::exception& error) {
    exchange->answer(refusal(500, "internal_error", error.what()));
  }
}

// Reads the body and hands the request over, or answers 408 when it has not arrived by the deadline.
void receive_body(const SharedPtr& shared, const ExchangePtr& exchange, HttpRequest request, size_t announced, size_t bound) {
  const auto timer = std::make_shared<boost::asio::steady_timer>(crossplat::threadpool::shared_instance().service());
  timer->expires_after(shared->options.body_patience + seconds(announced >> 20));
  timer->async_wait([weak = std::weak_ptr(exchange)](const boost::system::error_code& cancelled) {
    const auto open = weak.lock();
    if (!cancelled && open) open->refuse(refusal(408, "body_timeout", "the body did not arrive in time"));
  });
  auto body = std::make_shared<concurrency::streams::container_buffer<std::string>>();
  exchange->request().body().read_to_end(*body).then([=, request = std::move(request)](pplx::task<size_t> read) mutable {
    boost::asio::post(crossplat::threadpool::shared_instance().service(), [timer] { timer->cancel(); });
    shared->give_back(announced);
    try {
      read.get();
    } catch (const std::exception&) {
      exchange->answer(refusal(400, "body_cut_short", "the connection ended inside the body"));
      return;
    }
    request.body = std::move(body->collection());
    if (request.body.size() != announced) {
      exchange->answer(refusal(400, "body_cut_short", "the body is not as long as announced"));
    } else if (announced > bound) {
      exchange->answer(too_large(announced, bound));
    } else {
      hand_over(shared, exchange, std::move(request));
    }
  });
}

std::map<std::string, std::string> lower_case_headers(const http::http_headers& headers) {
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : headers) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    result[lower] = value;
  }
  return result;
}

void on_request(const SharedPtr& shared, http::http_request cpprest_request) {
  const auto exchange = std::make_shared<Exchange>(cpprest_request, shared->options.max_stream_buffer_bytes);
  if (!shared->enter(exchange)) return exchange->refuse(refusal(503, "stopping", "the service is stopping"));
  const auto& uri = cpprest_request.request_uri();
  auto request =
      check_request(cpprest_request.method(), uri.path(), uri.query(), lower_case_headers(cpprest_request.headers()));
  if (!request) return exchange->refuse(std::move(request.error()));
  request->remote = cpprest_request.remote_address();
  if (request->method == "HEAD") request->method = "GET";  // the answer's body is dropped on its way out
  const auto announced = announced_body(*request);
  if (!announced) return exchange->refuse(announced.error());
  const size_t bound = body_bound(*request, shared->options);
  if (*announced > bound + kPoliteBytes) return exchange->refuse(too_large(*announced, bound));
  if (shared->options.admit) {
    if (auto refused = shared->options.admit(*request)) {
      return *announced > kPoliteBytes ? exchange->refuse(std::move(*refused)) : exchange->answer(std::move(*refused));
    }
  }
  if (*announced == 0) return hand_over(shared, exchange, *std::move(request));
  if (!shared->reserve(*announced)) {
    HttpResponse busy = refusal(503, "busy", "too many bodies are being received: try again");
    busy.headers["Retry-After"] = "1";
    return exchange->refuse(std::move(busy));
  }
  receive_body(shared, exchange, *std::move(request), *announced, bound);
}

struct Address {
  std::string host;  // numeric, as a URL has it: IPv6 in brackets
  int port = 0;
};

std::string bind_failure(const std::string& listen, int error) {
  std::string text = fmt::format("cannot listen on {}: {}.", listen, std::system_category().message(error));
  const size_t colon = listen.rfind(':');
  if (error == EADDRINUSE) {
    text +=
        fmt::format(" Another program has port {}: stop it, or choose another port with --listen {}:PORT (0 picks a free one).",
                    listen.substr(colon + 1), listen.substr(0, colon));
  } else if (error == EACCES) {
    text += " Ports below 1024 need privileges: choose a higher one with --listen HOST:PORT.";
  } else {
    text += " Choose an address of this machine with --listen HOST:PORT (0.0.0.0 means all of them).";
  }
  return text;
}

// Finds the address and tries it with a socket of our own: the library cannot say which port it got, nor tell errors apart.
tl::expected<Address, std::string> probe(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon + 1 == listen.size()) {
    return tl::unexpected(fmt::format("cannot listen on {}: expected HOST:PORT, such as 127.0.0.1:7070", listen));
  }
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int error = getaddrinfo(host.c_str(), listen.c_str() + colon + 1, &hints, &found); error != 0) {
    return tl::unexpected(
        fmt::format("cannot listen on {}: {}. Expected HOST:PORT, such as 127.0.0.1:7070", listen, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, &freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET) found = const_cast<addrinfo*>(entry);  // "localhost" means 127.0.0.1 where it means both
    if (entry->ai_family == AF_INET) break;
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  int error = 0;
  if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd, 1) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    error = errno;
  }
  if (fd >= 0) close(fd);
  if (error != 0) return tl::unexpected(bind_failure(listen, error));
  char text_host[NI_MAXHOST], text_port[NI_MAXSERV];
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, text_host, sizeof text_host, text_port, sizeof text_port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return Address{bound.ss_family == AF_INET6 ? fmt::format("[{}]", text_host) : text_host, std::atoi(text_port)};
}

class CpprestHttpServer : public HttpServer {
 public:
  CpprestHttpServer(const Address& address, SharedPtr shared) : port_(address.port), shared_(std::move(shared)) {
    listener_ = std::make_shared<CpprestListener>(web::uri(fmt::format("http://{}:{}/", address.host, address.port)));
    listener_->m_all_requests = [request_shared = shared_](http::http_request request) {
      on_request(request_shared, std::move(request));
    };
    server_ = http::experimental::details::make_http_asio_server();
    server_->register_listener(listener_.get()).get();
    server_->start().get();
  }

  ~CpprestHttpServer() override {
    std::vector<ExchangePtr> open;
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->stopping = true;
      for (const auto& entry : shared_->open) {
        if (auto exchange = entry.lock()) open.push_back(std::move(exchange));
      }
    }
    for (const auto& exchange : open) {
      exchange->answer(refusal(503, "stopping", "the service is stopping"));
      exchange->cut_stream();
    }
    // The library waits until its last connection is gone. One that was accepted in this very moment is not cut by it, so
    // the wait has an end, and what belongs to the listener is left behind rather than pulled from under a late callback.
    auto done = std::make_shared<std::promise<void>>();
    auto stopped = done->get_future();
    std::thread([listener = listener_, server = std::shared_ptr<CpprestServer>(std::move(server_)), done] {
      server->unregister_listener(listener.get()).get();
      server->stop().get();
      keep_for_good(server);
      done->set_value();
    }).detach();
    stopped.wait_for(kStopPatience);
  }

  int port() const override { return port_; }

 private:
  // A connection's last callback may still touch the server after stop() has returned; it is a few hundred bytes.
  static void keep_for_good(const std::shared_ptr<CpprestServer>& server) {
    static auto* mutex = new std::mutex;
    static auto* kept = new std::vector<std::shared_ptr<CpprestServer>>;
    const std::lock_guard lock(*mutex);
    kept->push_back(server);
  }

  int port_;
  SharedPtr shared_;
  std::shared_ptr<CpprestListener> listener_;
  std::unique_ptr<CpprestServer> server_;
};

// Replies are routed by the library through one server object of the whole process; which one does not matter.
void prepare_library() {
  static std::once_flag once;
  std::call_once(once, [] {
    crossplat::threadpool::initialize_with_threads(kThreads);
    http::experimental::details::http_server_api::register_server_api(http::experimental::details::make_http_asio_server());
  });
}

}  // namespace

tl::expected<std::unique_ptr<HttpServer>, std::string> HttpServer::start(const HttpServerOptions& options, Handler handler) {
  prepare_library();
  const auto address = probe(options.listen);
  if (!address) return tl::unexpected(address.error());
  auto shared = std::make_shared<Shared>();
  shared->options = options;
  shared->handler = std::move(handler);
  try {
    return std::make_unique<CpprestHttpServer>(*address, std::move(shared));
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("cannot listen on {}: {}", options.listen, error.what()));
  }
}

}  // namespace holdfast::rendezvous
