// Common forms of answers; query parameters checked by name.
#include "rendezvous/api/answers/answers.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "rendezvous/api/answers/problems.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

bool parse_integer(std::string_view text, int64_t& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

HttpResponse json_answer(int status, const Json& body) {
  HttpResponse response;
  response.status = status;
  response.body = json_text(body);
  response.body.push_back('\n');
  return response;
}

HttpResponse empty_answer(int status) {
  HttpResponse response;
  response.status = status;
  response.content_type.clear();
  return response;
}

HttpResponse problem_answer(const Problem& problem) {
  HttpResponse response = json_answer(problem.status, Json(problem));
  response.content_type = kProblemType;
  if (problem.status == 401) response.headers["WWW-Authenticate"] = "Bearer realm=\"holdfast\"";
  if (problem.status == 503 || problem.status == 429) response.headers.emplace("Retry-After", "1");
  return response;
}

Problem invalid_spec(std::vector<FieldError> errors) {
  std::string detail;
  for (const FieldError& error : errors)
    detail += fmt::format("{}{}: {}", detail.empty() ? "" : "; ", error.field, error.message);
  Problem bad = problem(400, "invalid_spec", detail);
  bad.errors = std::move(errors);
  return bad;
}

Problem storage_problem(const storage::Error& error) {
  switch (error.code) {
    case storage::Error::Code::kNotFound:
      return problem(404, "not_found", error.message);
    case storage::Error::Code::kCorrupt:
      return problem(422, "corrupt", error.message);  // not 5xx: asking again does not help
    case storage::Error::Code::kNoSpace:
      return problem(507, "no_space", error.message);
    case storage::Error::Code::kUnavailable:
      return problem(503, "unavailable", error.message);
    case storage::Error::Code::kRefused:
      break;
  }
  return problem(400, "refused", error.message);
}

Outcome<int64_t> integer_query(const HttpRequest& request, const std::string& name, int64_t min, int64_t max,
                               int64_t otherwise) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  int64_t value = 0;
  if (!parse_integer(found->second, value) || value < min || value > max) {
    return tl::unexpected(bad_field(
        name, fmt::format("must be a whole number from {} to {}, not \"{}\"", min, max, found->second.substr(0, 40))));
  }
  return value;
}

std::string text_query(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

Outcome<bool> flag_query(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  if (found == request.query.end() || found->second == "0" || found->second == "false") return false;
  if (found->second == "1" || found->second == "true") return true;
  return tl::unexpected(bad_field(name, fmt::format("must be 1 or 0, not \"{}\"", found->second.substr(0, 40))));
}

Outcome<Page> page_of(const HttpRequest& request, int64_t limit_otherwise) {
  const auto limit = integer_query(request, "limit", 1, kPageRowsMax, limit_otherwise);
  if (!limit) return tl::unexpected(limit.error());
  const auto after = integer_query(request, "after", 0, INT64_MAX, 0);
  if (!after) return tl::unexpected(after.error());
  Page page{*limit, *after};
  const std::string token = text_query(request, "page_token");
  if (token.empty()) return page;
  if (token[0] != 'p' || !parse_integer(std::string_view(token).substr(1), page.after, 16) || page.after < 1) {
    return tl::unexpected(bad_field("page_token", "is none of ours: pass the next_page_token of the page before, unchanged"));
  }
  return page;
}

Json next_page_token(int64_t after) {
  return after == 0 ? Json(nullptr) : Json(fmt::format("p{:x}", after));
}

Outcome<Json> read_json(const HttpRequest& request) {
  ParsedJson parsed = parse_json(request.body);
  if (parsed.too_deep) {
    return tl::unexpected(problem(400, "invalid_json",
                                  fmt::format("the body of {} {} is nested deeper than {} levels, which nothing here needs",
                                              request.method, request.path, kJsonDepthMax)));
  }
  if (parsed.json.is_discarded()) {
    return tl::unexpected(
        problem(400, "invalid_json",
                fmt::format("the body of {} {} is not JSON ({} bytes)", request.method, request.path, request.body.size())));
  }
  return std::move(parsed.json);
}

}  // namespace holdfast::rendezvous
