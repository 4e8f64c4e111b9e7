// Requests to the service, lists page by page, and job names for job ids.
#include "ops/cli/command/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <limits>
#include <random>
#include <thread>

#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

constexpr size_t kPageSize = 1000;
constexpr int kAttempts = 3;
// The service reads and verifies every byte of the checkpoint that a job resumes from before it answers.
constexpr std::chrono::minutes kLongAnswer{15};

bool looks_like_an_id(const std::string& text) {
  return text.size() > 1 && text[0] == 'j' &&
         std::all_of(text.begin() + 1, text.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::string new_key() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

[[noreturn]] void ambiguous(const std::string& name, const std::vector<const Json*>& jobs) {
  std::string ids;
  for (const Json* job : jobs)
    ids += fmt::format("{}{} ({})", ids.empty() ? "" : ", ", text_at(*job, "id"), printable(text_at(*job, "name")));
  throw Failure{kBadInput, fmt::format("{} could be any of {}: give the id", name, ids)};
}

}  // namespace

std::string server_of(const Options& options) {
  return options.server.empty() ? rendezvous::default_server() : options.server;
}
std::string token_of(const Options& options) {
  return options.token.empty() ? rendezvous::find_token("admin.token") : options.token;
}

Failure failure_of(const rendezvous::HttpFailure& failure) {
  const int status = failure.problem.status;
  const int exit_code = failure.unreachable || status >= 500 ? kUnreachable
                        : status == 401 || status == 403     ? kNotAllowed
                                                             : kBadInput;
  return {exit_code, failure.message(), status == 429};
}

Api::Api(const Options& options) : client_(server_of(options), token_of(options)) {}

Json Api::decoded(const tl::expected<rendezvous::HttpReply, rendezvous::HttpFailure>& reply) {
  if (!reply) throw failure_of(reply.error());
  tell_of_standby(*reply);
  if (reply->body.empty()) return Json::object();
  Json json = Json::parse(reply->body, nullptr, false);
  if (json.is_discarded()) {
    throw Failure{kUnreachable, fmt::format("{} did not answer as a Holdfast service does (no JSON): is --server right?",
                                            client_.base_url())};
  }
  return json;
}

// Once, on stderr: what is printed may be a little old.
void Api::tell_of_standby(const rendezvous::HttpReply& reply) {
  if (reply.as_of.empty() || std::exchange(told_of_standby_, true)) return;
  fmt::print(stderr, "note: {} stands by, and shows its database as of {}{}\n", client_.base_url(), reply.as_of,
             reply.leader.empty() ? "" : fmt::format("; {} leads", printable(reply.leader)));
}

Json Api::get(const std::string& path) {
  return decoded(client_.request("GET", path));
}
Json Api::post(const std::string& path, const Json& body) {
  return decoded(client_.request("POST", path, rendezvous::json_text(body)));
}

Json Api::post_once(const std::string& path, const Json& body, const std::string& key) {
  client_.set_header("Idempotency-Key", key.empty() ? new_key() : key);
  const std::string text = rendezvous::json_text(body);
  for (int attempt = 1;; ++attempt) {
    auto reply = client_.request("POST", path, text, "application/json", kLongAnswer);
    if (reply || !reply.error().unreachable || attempt == kAttempts) return decoded(reply);
    fmt::print(stderr, "{}; asking again\n", reply.error().message());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

Json Api::remove(const std::string& path) {
  return decoded(client_.request("DELETE", path));
}

Json Api::list(const std::string& path, const std::string& key, const Query& query) {
  return list_some(path, key, query, std::numeric_limits<size_t>::max()).items;
}

Listing Api::list_some(const std::string& path, const std::string& key, Query query, size_t limit) {
  Listing listing;
  std::string token;
  do {
    Query page_query = query;
    page_query.emplace_back("limit", fmt::format("{}", std::min(limit - listing.items.size(), kPageSize)));
    if (!token.empty()) page_query.emplace_back("page_token", token);
    const Json page = get(path_with(path, page_query));
    if (page.contains(key)) listing.items.insert(listing.items.end(), page[key].begin(), page[key].end());
    token = text_at(page, "next_page_token");
    std::erase_if(query, [](const auto& one) { return one.first == "page_token"; });  // that one was of the first page
  } while (!token.empty() && listing.items.size() < limit);
  if (!token.empty()) listing.next_page_token = token;
  return listing;
}

std::string Api::job_id(const std::string& id_or_name) {
  if (looks_like_an_id(id_or_name)) return id_or_name;
  const Json jobs = list("/v1/jobs", "jobs");
  std::vector<const Json*> same, begins;
  for (const Json& job : jobs) {
    const std::string name = text_at(job, "name");
    if (name == id_or_name) same.push_back(&job);
    if (name.starts_with(id_or_name)) begins.push_back(&job);
  }
  const auto& found = same.empty() ? begins : same;
  if (found.empty() || id_or_name.empty()) {
    throw Failure{kBadInput, fmt::format("no job has the id or name {}: `holdfast ls` lists them", id_or_name)};
  }
  if (found.size() > 1) ambiguous(id_or_name, found);
  return text_at(*found.front(), "id");
}

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      encoded += static_cast<char>(c);
    } else {
      encoded += fmt::format("%{:02X}", c);
    }
  }
  return encoded;
}

std::string path_with(const std::string& path, const Query& query) {
  std::string text = path;
  for (const auto& [name, value] : query)
    text += fmt::format("{}{}={}", text.size() == path.size() ? "?" : "&", name, percent_encoded(value));
  return text;
}

bool has(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && !json[name].is_null();
}

std::string text_at(const Json& json, const char* name, const std::string& otherwise) {
  if (!has(json, name)) return otherwise;
  return json[name].is_string() ? json[name].get<std::string>() : rendezvous::json_text(json[name]);
}
int64_t integer_at(const Json& json, const char* name, int64_t otherwise) {
  return has(json, name) && json[name].is_number() ? json[name].get<int64_t>() : otherwise;
}
std::optional<double> number_at(const Json& json, const char* name) {
  return has(json, name) ? rendezvous::number_from_json(json[name]) : std::nullopt;
}

void print_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace holdfast::ops
