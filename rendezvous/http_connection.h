// One client's connection: its requests one after the other, each with its answer. Part of the server, for http_*.cpp alone.
//
// Thread: begin() and close() from any; the rest on the connection's strand. It lives as long as something is under way on
// it, or somebody still has to answer it.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "rendezvous/http_channel.h"
#include "rendezvous/http_event_stream.h"
#include "rendezvous/http_head.h"
#include "rendezvous/http_server.h"

namespace holdfast::rendezvous {

class Connection;

// What a server has in common with its connections; outlives it for as long as one of them is not answered.
class ServerCore {
 public:
  ServerCore(const HttpServerOptions& options, Handler handler) : options_(options), handler_(std::move(handler)) {}

  boost::asio::io_context& io() { return io_; }
  const HttpServerOptions& options() const { return options_; }
  const Handler& handler() const { return handler_; }

  // False: there are too many, or the server is stopping.
  [[nodiscard]] bool enter(const std::shared_ptr<Connection>& connection);
  void leave(const Connection* connection);
  [[nodiscard]] bool reserve(size_t body_bytes);
  void release(size_t body_bytes);
  void count_stream(int64_t change) { streams_ += change; }
  // Does `work`, unless the server is stopping: then nobody is left to do it for.
  void unless_stopping(const std::function<void()>& work);
  void stop();  // no connection is taken any more, and those that are open are closed
  HttpServerCounts counts() const;

 private:
  boost::asio::io_context io_;
  const HttpServerOptions options_;
  const Handler handler_;
  mutable std::mutex mutex_;
  bool stopping_ = false;
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> open_;
  size_t body_bytes_ = 0, object_bytes_ = 0;  // announced by requests with a body that are not answered yet
  int64_t refused_ = 0;
  std::atomic<int64_t> streams_ = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, std::unique_ptr<Channel> channel, std::string peer);
  ~Connection();
  Connection(const Connection&) = delete;

  void begin();
  void close();  // once an answer that is on its way was taken
  // The answer to the request under way, for whose body so many bytes were reserved. From any thread.
  void answer(HttpResponse response, size_t reserved);

 private:
  using error_code = boost::system::error_code;

  void expect_request();
  void read_head();
  void on_head(RequestHead head);
  void receive_body();
  void read_body();
  void hand_over();
  void respond(HttpResponse response);
  void write_piece(std::string head, size_t from);
  void begin_stream();
  void pump();
  void watch_reader();
  void end_stream();
  void refuse(HttpResponse response);  // and closes
  void after_answer();
  void linger();
  void discard();
  void end();  // at once

  void set_deadline(std::chrono::milliseconds patience);
  void clear_deadline();

  std::shared_ptr<ServerCore> core_;  // first: the socket below belongs to its io_context
  std::unique_ptr<Channel> channel_;
  const std::string peer_;
  boost::asio::steady_timer deadline_;
  bool late_ = false;     // the deadline passed
  bool reading_ = false;  // a request, which is answered when it comes too late

  std::array<char, 16 << 10> piece_;
  std::string bytes_;  // read and not used yet
  std::optional<HeadParser> parser_;
  RequestHead head_;
  size_t body_read_ = 0;
  size_t reserved_ = 0;
  bool keep_alive_ = true, closing_ = false, writing_ = false;
  HttpResponse response_;
  std::shared_ptr<BufferedEventStream> stream_;
  bool streaming_ = false, pumping_ = false;
  std::string frame_, chunk_;
  size_t discarded_ = 0;
};

}  // namespace holdfast::rendezvous
