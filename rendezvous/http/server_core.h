// The state that all connections of a server share: which are open, and how much memory is held for all of them. Part of the
// server, for this folder alone.
//
// Thread: any.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

class Connection;

// Outlives the server for as long as one of its connections is not answered.
class ServerCore {
 public:
  ServerCore(const HttpServerOptions& options, Gate gate) : options_(options), gate_(std::move(gate)) {}

  boost::asio::io_context& io() { return io_; }
  const HttpServerOptions& options() const { return options_; }
  const Gate& gate() const { return gate_; }

  // False: there are too many, or the server is stopping.
  [[nodiscard]] bool enter(const std::shared_ptr<Connection>& connection);
  void leave(const Connection* connection, bool stranger);
  void know(const std::string& peer);  // one connection of this address has shown a valid token
  [[nodiscard]] bool reserve(size_t body_bytes);
  void release(size_t body_bytes);
  [[nodiscard]] bool reserve_answer(size_t bytes);
  void release_answer(size_t bytes);
  void count_stream(int64_t change) { streams_ += change; }
  // Does `work`, unless the server is stopping: then there is no client left to do it for.
  void unless_stopping(const std::function<void()>& work);
  void stop();  // takes no more connections, and closes the open ones
  HttpServerCounts counts() const;

 private:
  void forget_if_none(const std::string& peer);  // with the mutex

  boost::asio::io_context io_;
  const HttpServerOptions options_;
  const Gate gate_;
  mutable std::mutex mutex_;
  bool stopping_ = false;
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> open_;
  size_t body_bytes_ = 0, object_bytes_ = 0;           // announced by requests with a body that are not answered yet
  size_t answer_bytes_ = 0;                            // of large answers that are being sent
  std::unordered_map<std::string, size_t> strangers_;  // by address: open connections without a valid token so far
  int64_t refused_ = 0;
  std::atomic<int64_t> streams_ = 0;
};

}  // namespace holdfast::rendezvous
