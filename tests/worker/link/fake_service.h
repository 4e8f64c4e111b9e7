// A service that remembers what it was told and answers as the test says. It can be taken away and brought back.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/http/server.h"
#include "rendezvous/protocol/messages.h"

namespace holdfast::worker {

class FakeService {
 public:
  using Answer = std::function<std::optional<rendezvous::HttpResponse>(const rendezvous::HttpRequest&)>;

  FakeService() { come_back(); }
  ~FakeService() { go_away(); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  void go_away() {
    std::vector<rendezvous::Reply> parked;
    {
      const std::lock_guard lock(mutex_);
      parked.swap(parked_);
    }
    server_.reset();
  }
  void come_back() {
    rendezvous::HttpServerOptions options;
    options.listen = "127.0.0.1:" + std::to_string(port_);
    auto server = rendezvous::HttpServer::start(options, [this](rendezvous::HttpRequest request, rendezvous::Reply reply) {
      handle(std::move(request), std::move(reply));
    });
    if (!server) throw std::runtime_error(server.error());
    server_ = std::move(*server);
    port_ = server_->port();
  }

  // Answers for what the test cares about; nullopt: as usual.
  void answer_with(Answer answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // The checkpoints that other jobs need, in each answer to one from now on.
  void say_needed(std::vector<int64_t> steps) {
    const std::lock_guard lock(mutex_);
    needed_steps_ = std::move(steps);
  }
  static rendezvous::HttpResponse problem(int status, const std::string& code) {
    rendezvous::Problem problem{status, "refused", "for the test", code, {}};
    return {status, nlohmann::json(problem).dump(), "application/problem+json", {}, nullptr};
  }

  void set_directive(const rendezvous::Directive& directive) {
    std::vector<rendezvous::Reply> parked;
    std::string body;
    {
      const std::lock_guard lock(mutex_);
      directive_ = directive;
      body = nlohmann::json(directive).dump();
      parked.swap(parked_);
    }
    for (const auto& reply : parked) reply({200, body, "application/json", {}, nullptr});
  }

  // Where messages went, in order.
  std::vector<std::string> paths() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [path, message] : messages_) all.push_back(path);
    return all;
  }
  // Messages to paths that end with `suffix`, as JSON, in order.
  std::vector<nlohmann::json> received(const std::string& suffix) const {
    const std::lock_guard lock(mutex_);
    return received_locked(suffix);
  }
  // Waits until `enough` says so of them.
  using Received = std::vector<nlohmann::json>;
  bool wait_for(const std::string& suffix, const std::function<bool(const Received&)>& enough) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return enough(received_locked(suffix)); });
  }
  bool wait_for(const std::string& suffix, size_t count) {
    return wait_for(suffix, [count](const Received& all) { return all.size() >= count; });
  }

 private:
  void handle(rendezvous::HttpRequest request, rendezvous::Reply reply) {
    std::unique_lock lock(mutex_);
    const auto special = answer_ ? answer_(request) : std::nullopt;
    if (!request.body.empty()) messages_.emplace_back(request.path, nlohmann::json::parse(request.body, nullptr, false));
    changed_.notify_all();
    if (!special && request.path.ends_with("/directive") && directive_.tag() == request.query["have"]) {
      parked_.push_back(std::move(reply));
      return;
    }
    const auto response = special ? *special : usual(request);
    lock.unlock();
    reply(response);
  }

  rendezvous::HttpResponse usual(const rendezvous::HttpRequest& request) const {
    if (request.path == "/v1/workers") {
      return {200, nlohmann::json(rendezvous::RegisterReply{"w1", "s1", 50, 1000}).dump(), "application/json", {}, nullptr};
    }
    if (request.path.ends_with("/status")) {
      return {200, nlohmann::json(rendezvous::StatusReply{directive_.tag()}).dump(), "application/json", {}, nullptr};
    }
    if (request.path.ends_with("/directive")) return {200, nlohmann::json(directive_).dump(), "application/json", {}, nullptr};
    if (request.path.ends_with("/checkpoints"))
      return {201, nlohmann::json(rendezvous::CheckpointReply{needed_steps_}).dump(), "application/json", {}, nullptr};
    return {204, "", "application/json", {}, nullptr};
  }

  std::vector<nlohmann::json> received_locked(const std::string& suffix) const {
    std::vector<nlohmann::json> found;
    for (const auto& [path, message] : messages_) {
      if (path.ends_with(suffix)) found.push_back(message);
    }
    return found;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Answer answer_;
  rendezvous::Directive directive_;
  std::vector<rendezvous::Reply> parked_;  // long-polls
  std::vector<int64_t> needed_steps_;
  std::vector<std::pair<std::string, nlohmann::json>> messages_;
  std::unique_ptr<rendezvous::HttpServer> server_;
  int port_ = 0;
};

}  // namespace holdfast::worker
