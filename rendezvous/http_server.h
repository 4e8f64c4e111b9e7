// HTTP in and out, and nothing else: the files http_*.cpp are the only ones that know Boost.Asio, Boost.Beast and TLS.
//
// Promises: the handler is called once per request, with the body whole and within bounds; it must not block (it hands
// work to another thread and keeps the Reply). A Reply is called once, from any thread, now or much later; one that is dropped
// uncalled answers 500. Requests that break the bounds are answered here with problem details (400, 405, 408, 411, 413,
// 414, 431, 503) and never reach the handler. HEAD reaches it as GET; the body of the answer is dropped. A connection that does
// not say what it wants in time is closed, and so many may be open and no more: whoever keeps some half open harms nobody.
// Refuses: chunked request bodies (411), so that a body's room is known before it is read.
// Thread: the handler is called from any of the server's threads, several at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::rendezvous {

struct HttpRequest {
  std::string method, path;                           // path decoded, without query
  std::map<std::string, std::string> query, headers;  // header names in lower case
  std::string body;
  std::string peer;  // the other side's address, without its port
};

// A reply body that goes on: server-sent events. Kept by the writer; writes may come from any thread and never block.
class EventStream {
 public:
  virtual ~EventStream() = default;
  // False when the reader is gone, or so slow that more than the server's bound would be buffered (it is then cut off).
  virtual bool write(const std::string& chunk) = 0;
  virtual void close() = 0;
  // Bytes that were written and that the kernel has not taken yet: a writer that waits while there are some never has a
  // slow reader cut off.
  virtual size_t unread() const = 0;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::map<std::string, std::string> headers;
  // When set, the reply has no length: headers are sent, and then this is called with the stream, once.
  std::function<void(std::shared_ptr<EventStream>)> on_stream;
};
using Reply = std::function<void(HttpResponse)>;
using Handler = std::function<void(HttpRequest, Reply)>;

// Files in PEM. They are read again when they change, so that a certificate can be renewed while the service runs.
struct TlsFiles {
  std::string certificate;  // the chain, the server's own first; "" for plain HTTP
  std::string key;
};

// Whether a request may go on, from its head.
struct Admission {
  std::optional<HttpResponse> refusal;  // the answer, if not
  bool known = false;                   // it came with a valid token: its connection is no stranger's any more
};

struct HttpServerOptions {
  std::string listen = "127.0.0.1:7070";  // host:port; port 0 picks a free one
  TlsFiles tls;
  size_t max_connections = 8192;
  size_t max_strangers = 1024;  // of them, from one address that have not shown a valid token: nobody takes all of them
  size_t max_body_bytes = 1 << 20;
  size_t max_object_bytes = 256 << 20;  // for PUT below /v1/jobs/*/objects/
  // All that are held, together: of requests that are not answered yet. Those of objects apart, so that a few that are slow to
  // come do not keep heartbeats out.
  size_t max_bodies_bytes = 256 << 20;
  size_t max_objects_bytes = size_t{1} << 30;
  size_t max_answers_bytes = size_t{1} << 30;  // of answers above max_body_bytes that are being read, however slowly
  size_t max_stream_buffer_bytes = 1 << 20;
  std::chrono::milliseconds head_patience = std::chrono::seconds(15);   // for request line and headers, and for a TLS handshake
  std::chrono::milliseconds idle_patience = std::chrono::seconds(120);  // between two requests
  std::chrono::milliseconds body_patience = std::chrono::seconds(30);   // for a body to arrive, and 1 s more for each MiB
  std::chrono::milliseconds write_patience = std::chrono::seconds(30);  // for the other side to take a piece of an answer
  // Called with each request before its body is read, as the handler would be: it may refuse it (a missing token, so that
  // strangers cannot make the service hold bodies for them). May be empty: all are admitted, and known.
  std::function<Admission(const HttpRequest&)> admit;
};

struct HttpServerCounts {
  int64_t connections = 0, streams = 0;  // that are open
  int64_t refused_connections = 0;       // for there were too many
};

class HttpServer {
 public:
  // The error is a sentence for the user: a port in use names the port and how to pick another.
  static tl::expected<std::unique_ptr<HttpServer>, std::string> start(const HttpServerOptions& options, Handler handler);
  virtual ~HttpServer() = default;  // stops listening and cuts every open request; not to be called in a handler
  virtual int port() const = 0;
  virtual HttpServerCounts counts() const = 0;
};

}  // namespace holdfast::rendezvous
