// HTTP in and out, and nothing else: only the files of this folder know Boost.Asio, Boost.Beast and TLS.
//
// Promises: the gate is called once per request, with its head. The handler that the gate names is called once, with the body
// whole and within bounds. Neither may block: a handler gives the work to another thread and keeps the Reply. A Reply is called
// once, from any thread, now or much later; a Reply that is dropped uncalled answers 500. Requests that break the bounds are
// answered here with problem details (400, 405, 408, 411, 413, 414, 431, 503) and reach neither gate nor handler, or the gate
// alone. HEAD reaches them as GET; the body of the answer is dropped. A connection that does not send its request in time is
// closed, and the number of connections is bounded, so clients that keep some half open harm nobody.
// Refuses: chunked request bodies (411), so that a body's room is known before it is read.
// Thread: gate and handlers are called from any of the server's threads, several at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace holdfast::rendezvous {

struct HttpRequest {
  std::string method, path;                           // path decoded, without query
  std::map<std::string, std::string> query, headers;  // header names in lower case
  std::string body;
  std::string peer;  // the other side's address, without its port
};

// The body of a reply that goes on: server-sent events, or a file that nobody holds whole. The writer keeps it; calls may come
// from any thread, and none but await_reader blocks.
class EventStream {
 public:
  virtual ~EventStream() = default;
  // False when the reader is gone, or so slow that more than the bound would be buffered (it is then cut off). A chunk that is
  // larger by itself is taken where nothing is unread.
  virtual bool write(const std::string& chunk) = 0;
  virtual void close() = 0;
  // Ends before the whole was written, and drops what is unread: the connection is cut, so that the reader sees that something
  // is missing.
  virtual void abandon() = 0;
  // Bytes that were written and that the kernel has not taken yet. A writer that waits until there are none never has a slow
  // reader cut off.
  virtual size_t unread() const = 0;
  // Blocks until at most so many bytes are unread. False when the reader is gone, or the stream was closed or abandoned. A
  // reader that takes nothing for the server's write_patience is gone.
  virtual bool await_reader(size_t unread_bytes) = 0;
};

inline constexpr const char* kProblemType = "application/problem+json";  // RFC 9457

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::map<std::string, std::string> headers = {};
  // When set, `body` is not sent: the headers are, then this is called once with the stream, on a thread that must not block.
  // For HEAD it is dropped.
  std::function<void(std::shared_ptr<EventStream>)> on_stream = {};
  std::optional<uint64_t> stream_bytes = {};     // all that will be written to the stream, where that is known: readers see it
  std::optional<size_t> stream_unread_max = {};  // the bound of its unread bytes, in place of the server's
};
using Reply = std::function<void(HttpResponse)>;
using Handler = std::function<void(HttpRequest, Reply)>;

// Files in PEM. The server reads them again when they change, so that a certificate can be renewed while the service runs.
struct TlsFiles {
  std::string certificate;  // the chain, the server's own first; "" for plain HTTP
  std::string key;
  bool in_place = false;  // the two are no names of files, but what would be in them
};

// The gate's judgement of a request, from its head: its answer, or its handler.
struct Admission {
  std::optional<HttpResponse> refusal;  // the body is not read then, so strangers cannot make the service hold bodies for them
  bool known = false;                   // the request has a valid token: its connection is no longer counted as a stranger's
  Handler handler = {};                 // takes the whole request, once; not empty where there is no refusal
};
// Of a request whose answer needs no look at its body.
inline Admission admission_with(HttpResponse answer) {
  return {.refusal = std::nullopt,
          .known = true,
          .handler = [answer = std::move(answer)](const HttpRequest&, const Reply& reply) { reply(answer); }};
}
using Gate = std::function<Admission(const HttpRequest& head)>;

struct HttpServerOptions {
  std::string listen = "127.0.0.1:7070";  // host:port; port 0 picks a free one
  TlsFiles tls;
  size_t max_connections = 8192;
  size_t max_strangers = 1024;  // of them, from one address without a valid token so far: nobody takes all connections
  size_t max_body_bytes = 1 << 20;
  size_t max_object_bytes = 256 << 20;  // for PUT below /v1/jobs/*/objects/
  // Bodies of all requests that are not answered yet, together. Objects are counted apart, so that a few slow ones do not keep
  // heartbeats out.
  size_t max_bodies_bytes = 256 << 20;
  size_t max_objects_bytes = size_t{1} << 30;
  size_t max_answers_bytes = size_t{1} << 30;  // answers above max_body_bytes that are being sent, together
  size_t max_stream_buffer_bytes = 1 << 20;
  std::chrono::milliseconds head_patience = std::chrono::seconds(15);   // for request line and headers, and for a TLS handshake
  std::chrono::milliseconds idle_patience = std::chrono::seconds(120);  // between two requests
  std::chrono::milliseconds body_patience = std::chrono::seconds(30);   // for a body to arrive; 1 s more for each MiB
  std::chrono::milliseconds write_patience = std::chrono::seconds(30);  // for the other side to take a piece of an answer
};

struct HttpServerCounts {
  int64_t connections = 0, streams = 0;  // open now
  int64_t refused_connections = 0;       // because there were too many
};

class HttpServer {
 public:
  // The error is a sentence for the user: a port in use names the port and how to pick another.
  static tl::expected<std::unique_ptr<HttpServer>, std::string> start(const HttpServerOptions& options, Gate gate);
  // The same with one handler for all requests; nobody is refused, and every connection stays a stranger's.
  static tl::expected<std::unique_ptr<HttpServer>, std::string> start(const HttpServerOptions& options, Handler handler);
  virtual ~HttpServer() = default;  // stops listening and cuts every open request; not to be called in a handler
  virtual int port() const = 0;
  virtual HttpServerCounts counts() const = 0;
};

}  // namespace holdfast::rendezvous
