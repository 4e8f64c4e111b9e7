// A server on a free port, and handlers for it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/client/http_client.h"
#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

// The requests that are not answered yet.
class Held {
 public:
  void add(Reply reply) {
    const std::lock_guard lock(mutex_);
    replies_.push_back(std::move(reply));
    changed_.notify_all();
  }
  std::vector<Reply> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return replies_.size() >= count; }));
    return std::exchange(replies_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Reply> replies_;
};

inline HttpResponse text_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

// `taker`: a Handler or a Gate.
template <typename Taker>
std::unique_ptr<HttpServer> start(Taker taker, HttpServerOptions options = {}) {
  options.listen = "127.0.0.1:0";
  auto server = HttpServer::start(options, std::move(taker));
  if (!server) ADD_FAILURE() << server.error();
  return server ? *std::move(server) : nullptr;
}

inline std::string url_of(const HttpServer& server) {
  return "http://127.0.0.1:" + std::to_string(server.port());
}

inline void echo(const HttpRequest& request, const Reply& reply) {
  reply(text_response(request.method + " " + request.path + " " + request.body));
}

// A handler that answers with a stream and puts the stream's writer into `opened`.
inline Handler stream_to(std::promise<std::shared_ptr<EventStream>>& opened) {
  return [&](const HttpRequest&, const Reply& reply) {
    HttpResponse response;
    response.on_stream = [&](std::shared_ptr<EventStream> stream) { opened.set_value(std::move(stream)); };
    reply(response);
  };
}

}  // namespace holdfast::rendezvous
