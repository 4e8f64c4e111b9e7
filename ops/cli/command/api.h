// The service's API as the command line uses it: JSON in, JSON out, and a Failure with the right exit code otherwise.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/cli/command/command.h"
#include "rendezvous/client/http_client.h"

namespace holdfast::ops {

using Json = nlohmann::json;

std::string server_of(const Options& options);
std::string token_of(const Options& options);

// Names and values behind the ? of a path.
using Query = std::vector<std::pair<std::string, std::string>>;
struct Listing {
  Json items = Json::array();
  Json next_page_token;  // for the next page; null after the last one
};

// The Failure that a failed request becomes: its exit code and its words.
Failure failure_of(const rendezvous::HttpFailure& failure);

// Repeats the request while the service answers 429; any other failure is thrown.
template <typename Ask>
auto patiently(const Ask& ask) -> decltype(ask()) {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(500))) {
    try {
      return ask();
    } catch (const Failure& failure) {
      if (!failure.busy) throw;
    }
  }
}

class Api {
 public:
  explicit Api(const Options& options);

  rendezvous::HttpClient& client() { return client_; }
  Json get(const std::string& path);
  Json post(const std::string& path, const Json& body = Json::object());
  // A POST that may take minutes and must happen once: sent under one Idempotency-Key, and once more under it when no answer
  // came, so that a connection that died before the answer makes neither a second thing nor an error. `key` "": a new one.
  Json post_once(const std::string& path, const Json& body, const std::string& key = "");
  Json remove(const std::string& path);
  // All pages of a list. `path` has no query; `key` names the array in it.
  Json list(const std::string& path, const std::string& key, const Query& query = {});
  // The same, of at most `limit` rows.
  Listing list_some(const std::string& path, const std::string& key, Query query, size_t limit);

  // The job's id, for an id, a name, or the unambiguous beginning of a name.
  std::string job_id(const std::string& id_or_name);

 private:
  Json decoded(const tl::expected<rendezvous::HttpReply, rendezvous::HttpFailure>& reply);
  void tell_of_standby(const rendezvous::HttpReply& reply);
  rendezvous::HttpClient client_;
  bool told_of_standby_ = false;
};

std::string percent_encoded(const std::string& text);
// "/v1/jobs?state=running&limit=3"
std::string path_with(const std::string& path, const Query& query);

// Fields of an answer that may be missing or null.
std::string text_at(const Json& json, const char* name, const std::string& otherwise = "");
int64_t integer_at(const Json& json, const char* name, int64_t otherwise = 0);
std::optional<double> number_at(const Json& json, const char* name);
bool has(const Json& json, const char* name);  // and is not null

// Indented, with a line break.
void print_json(const Json& json);

}  // namespace holdfast::ops
