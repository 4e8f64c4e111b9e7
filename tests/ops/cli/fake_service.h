// A service with prepared answers, which keeps the requests of the command line.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rendezvous/http/server.h"

namespace holdfast::ops {

class FakeService {
 public:
  FakeService() {
    rendezvous::HttpServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = rendezvous::HttpServer::start(
        options, [this](rendezvous::HttpRequest request, rendezvous::Reply reply) { handle(std::move(request), reply); });
    if (!server) throw std::runtime_error(server.error());
    server_ = *std::move(server);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }

  // Adds an answer to "METHOD /path". Several answers are given one after another; the last is given from then on.
  void answer(const std::string& call, const nlohmann::json& body, int status = 200) {
    const std::lock_guard lock(mutex_);
    answers_[call].push_back({status, body.dump(), "application/json"});
  }
  void problem(const std::string& call, int status, const std::string& detail,
               const nlohmann::json& errors = nlohmann::json::array()) {
    answer(call, {{"status", status}, {"title", "no"}, {"detail", detail}, {"errors", errors}}, status);
  }
  void answer_text(const std::string& call, const std::string& body) {
    const std::lock_guard lock(mutex_);
    answers_[call].push_back({200, body, "text/html"});
  }
  // Adds a stream of server-sent events with ids from 1, for followers; the stream ends after them.
  void stream(const std::string& call, const std::vector<nlohmann::json>& events) {
    const std::lock_guard lock(mutex_);
    streams_[call] = events;
  }

  std::vector<rendezvous::HttpRequest> requests(const std::string& call) {
    const std::lock_guard lock(mutex_);
    return requests_[call];
  }
  // The body of the only request for `call`.
  nlohmann::json body_of(const std::string& call) {
    const auto all = requests(call);
    EXPECT_EQ(all.size(), 1U) << call;
    return all.size() == 1 ? nlohmann::json::parse(all[0].body) : nlohmann::json();
  }

 private:
  struct Answer {
    int status;
    std::string body, type;
  };

  void handle(rendezvous::HttpRequest request, const rendezvous::Reply& reply) {
    const std::lock_guard lock(mutex_);
    const std::string call = request.method + " " + request.path;
    requests_[call].push_back(request);
    rendezvous::HttpResponse response;
    if (request.query.contains("follow") && streams_.contains(call)) return follow(call, request, reply);
    auto& answers = answers_[call];
    if (answers.empty()) {
      response.status = 404;
      response.body = nlohmann::json{{"status", 404}, {"detail", "nothing is said about " + call}}.dump();
      return reply(response);
    }
    response.status = answers.front().status;
    response.body = answers.front().body;
    response.content_type = answers.front().type;
    if (answers.size() > 1) answers.erase(answers.begin());
    reply(response);
  }

  void follow(const std::string& call, const rendezvous::HttpRequest& request, const rendezvous::Reply& reply) {
    const auto last = request.headers.find("last-event-id");
    const size_t after = last == request.headers.end() ? 0 : std::stoul(last->second);
    rendezvous::HttpResponse response;
    response.content_type = "text/event-stream";
    response.on_stream = [after, events = streams_[call]](const std::shared_ptr<rendezvous::EventStream>& stream) {
      for (size_t i = after; i < events.size(); ++i) {
        stream->write("id: " + std::to_string(i + 1) + "\ndata: " + events[i].dump() + "\n\n");
      }
      stream->close();
    };
    reply(response);
  }

  std::mutex mutex_;
  std::map<std::string, std::vector<Answer>> answers_;
  std::map<std::string, std::vector<nlohmann::json>> streams_;
  std::map<std::string, std::vector<rendezvous::HttpRequest>> requests_;
  std::unique_ptr<rendezvous::HttpServer> server_;
};

}  // namespace holdfast::ops
