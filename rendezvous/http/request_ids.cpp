#include "rendezvous/http/request_ids.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <nlohmann/json.hpp>

#include "rendezvous/protocol/messages.h"
#include "rendezvous/text/random_hex.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kBytesMax = 64;

bool is_word(const std::string& text) {
  return !text.empty() && text.size() <= kBytesMax &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; });
}

}  // namespace

std::string request_id(const HttpRequest& request) {
  const auto given = request.headers.find("x-request-id");
  if (given != request.headers.end() && is_word(given->second)) return given->second;
  static const std::string start = random_hex(4);
  static std::atomic<int64_t> count = 0;
  return start + "-" + std::to_string(++count);
}

void name_answer(HttpResponse& response, const std::string& id) {
  response.headers["X-Request-Id"] = id;
  if (response.content_type != kProblemType) return;
  nlohmann::json problem = nlohmann::json::parse(response.body, nullptr, false);
  if (!problem.is_object()) return;
  problem["request_id"] = id;
  response.body = json_text(problem) + "\n";
}

}  // namespace holdfast::rendezvous
