// A service that keeps data sets in memory, and fails as it is told to.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "rendezvous/http/server.h"
#include "rendezvous/protocol/data_set.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::ops {

class FakeDataService {
 public:
  using Json = nlohmann::json;

  FakeDataService() {
    rendezvous::HttpServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = rendezvous::HttpServer::start(
        options, [this](rendezvous::HttpRequest request, const rendezvous::Reply& reply) { reply(handle(request)); });
    if (!server) throw std::runtime_error(server.error());
    server_ = *std::move(server);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }

  // Called for each request before it is answered; an answer from it is the answer.
  using Instead = std::function<std::optional<rendezvous::HttpResponse>(const rendezvous::HttpRequest&)>;
  void instead(Instead what) {
    const std::lock_guard lock(mutex_);
    instead_ = std::move(what);
  }
  static rendezvous::HttpResponse problem(int status, const std::string& code, const std::string& detail) {
    return {status,
            Json{{"status", status}, {"code", code}, {"title", "no"}, {"detail", detail}}.dump(),
            "application/problem+json",
            {},
            {}};
  }

  std::map<std::string, std::string> chunks() const {
    const std::lock_guard lock(mutex_);
    return chunks_;
  }
  void forget_chunk(const std::string& name) {
    const std::lock_guard lock(mutex_);
    chunks_.erase(name);
  }
  std::optional<rendezvous::DataManifest> set(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = sets_.find(name);
    return found == sets_.end() ? std::nullopt : std::optional(found->second);
  }
  int puts() const {  // of chunks
    const std::lock_guard lock(mutex_);
    return puts_;
  }
  // The bytes of a file of a data set, put together from its chunks.
  std::string file(const std::string& name, const std::string& file) const {
    const auto manifest = set(name);
    if (!manifest || manifest->find(file) == nullptr) return "there is no such file";
    std::string bytes;
    for (const std::string& chunk : manifest->find(file)->chunks) bytes += chunks().at(chunk);
    return bytes;
  }

 private:
  rendezvous::HttpResponse handle(const rendezvous::HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    if (instead_) {
      if (auto answer = instead_(request)) return *std::move(answer);
    }
    const std::string chunks = "/v1/data/chunks/", sets = "/v1/data/sets/";
    if (request.path == "/v1/data/missing") return missing(Json::parse(request.body)["chunks"]);
    if (request.path.starts_with(chunks)) return keep_chunk(request.path.substr(chunks.size()), request.body);
    if (request.path.starts_with(sets)) return keep_set(request.path.substr(sets.size()), request.body);
    if (request.path == "/v1/data/sets") return answer(200, {{"data_sets", Json::array()}, {"next_page_token", nullptr}});
    return problem(404, "not_found", "no such place");
  }
  static rendezvous::HttpResponse answer(int status, const Json& body) {
    return {status, body.dump(), "application/json", {}, {}};
  }
  rendezvous::HttpResponse missing(const Json& names) const {
    Json lacking = Json::array();
    for (const Json& name : names) {
      if (!chunks_.contains(name.get<std::string>())) lacking.push_back(name);
    }
    return answer(200, {{"missing", lacking}});
  }
  rendezvous::HttpResponse keep_chunk(const std::string& name, const std::string& bytes) {
    EXPECT_EQ(rendezvous::sha256_hex(std::as_bytes(std::span(bytes))), name);
    ++puts_;
    chunks_[name] = bytes;
    return {204, "", "", {}, {}};
  }
  rendezvous::HttpResponse keep_set(const std::string& name, const std::string& body) {
    const auto manifest = rendezvous::data_manifest_from_json(Json::parse(body));
    EXPECT_TRUE(manifest.has_value()) << (manifest ? "" : manifest.error());
    for (const auto& file : manifest->files) {
      for (const std::string& chunk : file.chunks) {
        if (!chunks_.contains(chunk)) return problem(409, "chunks_missing", chunk + " is not here");
      }
    }
    sets_[name] = *manifest;
    return answer(201, {{"name", name}, {"digest", manifest->digest()}});
  }

  mutable std::mutex mutex_;
  Instead instead_;
  std::map<std::string, std::string> chunks_;
  std::map<std::string, rendezvous::DataManifest> sets_;
  int puts_ = 0;
  std::unique_ptr<rendezvous::HttpServer> server_;
};

}  // namespace holdfast::ops
