// The HTTP server over cpprestsdk's listener, which this file keeps to itself. Its server part is in maintenance mode, so
// the bounds are ours:
//   - Bodies: a length must be announced (chunked bodies are refused with 411: the library gathers a chunk of any size
//     before it shows a byte), is bounded, and must have arrived by a deadline; all bodies of requests that are not answered
//     yet have a bound together.
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

#include <cpprest/details/http_server.h>
#include <cpprest/details/http_server_api.h>
#include <cpprest/http_listener.h>
#include <fmt/format.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "rendezvous/http_event_stream.h"
#include "rendezvous/http_listen_address.h"
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

// One: the library works on a connection from whichever thread comes, without a lock, and an answer that goes out before the
// body has come (refuse) would be sent, and its socket closed, while another thread reads. Handlers never block.
constexpr size_t kThreads = 1;
constexpr auto kStopPatience = seconds(5);

class Exchange;

// What a server has in common with its requests; outlives it for as long as one of them is not answered.
struct Shared {
  HttpServerOptions options;
  Handler handler;
  std::mutex mutex;
  bool stopping = false;
  std::map<const Exchange*, std::weak_ptr<Exchange>> unanswered;  // each leaves when it is answered
  std::set<std::weak_ptr<BufferedEventStream>, std::owner_less<>> streams;
  size_t body_bytes = 0;  // announced by requests with a body that are not answered yet
  // Answers that were given to the library and are not written yet.
  std::map<uint64_t, http::http_request> sending;
  uint64_t sends = 0;
  std::condition_variable sent;

  uint64_t begin_send(const http::http_request& request) {
    const std::lock_guard lock(mutex);
    sending.emplace(++sends, request);
    return sends;
  }
  void end_send(uint64_t send) {
    decltype(sending)::node_type done;  // let go of without the lock
    const std::lock_guard lock(mutex);
    done = sending.extract(send);
    sent.notify_all();
  }
  // Sees every answer out, whether its request's body has come or not: the library crashes when it stops between an
  // answer and its being written. Clients that do not take theirs are not waited for without end.
  void finish_sending() {
    std::unique_lock lock(mutex);
    const auto open = sending;
    lock.unlock();
    for (const auto& [send, request] : open) request._get_impl()->_complete(0);
    lock.lock();
    sent.wait_for(lock, kStopPatience, [this] { return sending.empty(); });
  }

  // False when the server is stopping.
  bool enter(const std::shared_ptr<Exchange>& exchange) {
    const std::lock_guard lock(mutex);
    if (!stopping) unanswered.emplace(exchange.get(), exchange);
    return !stopping;
  }
  bool enter(const std::shared_ptr<BufferedEventStream>& stream) {
    const std::lock_guard lock(mutex);
    std::erase_if(streams, [](const auto& known) { return known.expired(); });
    if (!stopping) streams.insert(stream);
    return !stopping;
  }
  [[nodiscard]] bool reserve(size_t bytes) {
    const std::lock_guard lock(mutex);
    if (body_bytes + bytes > options.max_bodies_bytes) return false;
    body_bytes += bytes;
    return true;
  }
  // It is answered; `bytes` were reserved for its body.
  void leave(const Exchange* exchange, size_t bytes) {
    const std::lock_guard lock(mutex);
    unanswered.erase(exchange);
    body_bytes -= bytes;
  }
};
using SharedPtr = std::shared_ptr<Shared>;
using ExchangePtr = std::shared_ptr<Exchange>;

// One request between its arrival and its answer. Answered exactly once, by whoever comes first: the handler, a refusal, the
// body's deadline, the end of the server, or the last handle to it being dropped.
class Exchange {
 public:
  Exchange(const http::http_request& request, SharedPtr shared) : request_(request), shared_(std::move(shared)) {}
  ~Exchange() { answer(refusal(500, "no_answer", "the service dropped this request without an answer: try again")); }
  Exchange(const Exchange&) = delete;

  http::http_request& request() { return request_; }
  void answer(HttpResponse response);
  // Room for the body, kept until the request is answered: so long it is in memory. False: there is none.
  [[nodiscard]] bool reserve(size_t bytes);
  // Answers without waiting for the rest of the body, and closes the connection under it.
  void refuse(HttpResponse response);

 private:
  void send(http::http_response& response, const std::shared_ptr<BufferedEventStream>& stream);
  http::http_request request_;
  SharedPtr shared_;
  size_t reserved_ = 0;
  std::atomic<bool> answered_ = false;
};

bool Exchange::reserve(size_t bytes) {
  if (!shared_->reserve(bytes)) return false;
  reserved_ = bytes;
  return true;
}

void Exchange::send(http::http_response& response, const std::shared_ptr<BufferedEventStream>& stream) {
  const uint64_t send = shared_->begin_send(request_);
  try {
    request_.reply(response).then([weak = std::weak_ptr(stream), shared = shared_, send](const pplx::task<void>& sent) {
      try {
        sent.get();
      } catch (...) {  // the client went away: nobody is left to be told
      }
      if (const auto open = weak.lock()) open->cut();
      shared->end_send(send);
    });
  } catch (const std::exception&) {  // the server was stopped and has cut this request off
    if (stream) stream->cut();
    shared_->end_send(send);
  }
}

void Exchange::answer(HttpResponse response) {
  if (answered_.exchange(true)) return;
  shared_->leave(this, reserved_);
  http::http_response out(static_cast<http::status_code>(response.status));
  for (const auto& [name, value] : response.headers) out.headers()[name] = value;
  const bool head = request_.method() == http::methods::HEAD;
  if (!response.on_stream || head) {
    if (!head && !response.body.empty()) out.set_body(std::move(response.body), response.content_type);
    send(out, nullptr);
    return;
  }
  const auto stream = std::make_shared<BufferedEventStream>(shared_->options.max_stream_buffer_bytes);
  out.headers()["Cache-Control"] = "no-cache";
  out.set_body(stream->reader(), response.content_type);
  if (!shared_->enter(stream)) stream->cut();
  send(out, stream);
  response.on_stream(stream);
}

void Exchange::refuse(HttpResponse response) {
  response.headers["Connection"] = "close";
  answer(std::move(response));
  // The library sends an answer only when the request's body is complete. Complete it: the answer goes out, and the close
  // that follows ends the reading.
  request_._get_impl()->_complete(0);
}

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
  // The library reads 4 KB at a time, into a pipe of its own; to read that beside it takes another of its tasks for each. So it
  // writes to where the body is gathered.
  std::vector<uint8_t> room;
  room.reserve(announced);
  auto body =
      std::make_shared<concurrency::streams::container_buffer<std::vector<uint8_t>>>(std::move(room), std::ios_base::out);
  exchange->request()._get_impl()->set_outstream(body->create_ostream(), false);
  exchange->request().content_ready().then(
      [=, request = std::move(request)](const pplx::task<http::http_request>& read) mutable {
        boost::asio::post(crossplat::threadpool::shared_instance().service(), [timer] { timer->cancel(); });
        try {
          read.get();
        } catch (const std::exception&) {
          exchange->answer(refusal(400, "body_cut_short", "the connection ended inside the body"));
          return;
        }
        const std::vector<uint8_t>& bytes = body->collection();
        request.body.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
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

void on_request(const SharedPtr& shared, const http::http_request& cpprest_request) {
  const auto exchange = std::make_shared<Exchange>(cpprest_request, shared);
  if (!shared->enter(exchange)) return exchange->refuse(refusal(503, "stopping", "the service is stopping"));
  const auto& uri = cpprest_request.request_uri();
  auto request =
      check_request(cpprest_request.method(), uri.path(), uri.query(), lower_case_headers(cpprest_request.headers()));
  if (!request) return exchange->refuse(std::move(request.error()));
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
  if (!exchange->reserve(*announced)) {
    HttpResponse busy = refusal(503, "busy", "too many bodies are being received or worked on: try again");
    busy.headers["Retry-After"] = "1";
    return exchange->refuse(std::move(busy));
  }
  receive_body(shared, exchange, *std::move(request), *announced, bound);
}

class CpprestHttpServer : public HttpServer {
 public:
  CpprestHttpServer(const ListenAddress& address, SharedPtr shared) : port_(address.port), shared_(std::move(shared)) {
    listener_ = std::make_shared<CpprestListener>(web::uri(fmt::format("http://{}:{}/", address.host, address.port)));
    listener_->m_all_requests = [request_shared = shared_](const http::http_request& request) {
      on_request(request_shared, request);
    };
    server_ = http::experimental::details::make_http_asio_server();
    server_->register_listener(listener_.get()).get();
    server_->start().get();
  }

  ~CpprestHttpServer() override {
    const auto [exchanges, streams] = end();
    for (const auto& exchange : exchanges) exchange->answer(refusal(503, "stopping", "the service is stopping"));
    for (const auto& stream : streams) stream->cut();
    shared_->finish_sending();
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
  struct Open {
    std::vector<ExchangePtr> exchanges;
    std::vector<std::shared_ptr<BufferedEventStream>> streams;
  };
  // Marks the server as stopping; what was open then.
  Open end() {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    Open open;
    for (const auto& [address, exchange] : shared_->unanswered) {
      if (auto alive = exchange.lock()) open.exchanges.push_back(std::move(alive));
    }
    for (const auto& stream : shared_->streams) {
      if (auto alive = stream.lock()) open.streams.push_back(std::move(alive));
    }
    return open;
  }
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
  const auto address = find_listen_address(options.listen);
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
