// The common forms of requests and answers: JSON bodies, problems, query parameters, pages of lists.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rendezvous/api/answers/problems.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/http/server.h"
#include "storage/object_store.h"

namespace holdfast::rendezvous {

HttpResponse json_answer(int status, const nlohmann::json& body);
HttpResponse empty_answer(int status = 204);
HttpResponse problem_answer(const Problem& problem);
// 400 that names every field that is wrong.
Problem invalid_spec(std::vector<FieldError> errors);
// The failure of a checkpoint store as a problem.
Problem storage_problem(const storage::Error& error);

// A query parameter as an integer within [min, max]; `otherwise` when it is missing.
Outcome<int64_t> integer_query(const HttpRequest& request, const std::string& name, int64_t min, int64_t max,
                               int64_t otherwise);
// "1" or "true", "0" or "false"; false when it is missing.
Outcome<bool> flag_query(const HttpRequest& request, const std::string& name);
std::string text_query(const HttpRequest& request, const std::string& name);

// A list is cut into pages: `limit` rows after a position. The token for the next page is opaque to callers.
constexpr int64_t kPageRows = 100;  // without `limit`
struct Page {
  int64_t limit = kPageRows;
  int64_t after = 0;  // 0: from the start
};
constexpr int64_t kPageRowsMax = 1000;
Outcome<Page> page_of(const HttpRequest& request, int64_t limit_otherwise = kPageRows);
nlohmann::json next_page_token(int64_t after);  // null for 0: this was the last page

// The body as one message. The error is a 400 that names the place: malformed JSON, or a field that does not fit.
template <typename Message>
Outcome<Message> read_body(const HttpRequest& request);
Outcome<nlohmann::json> read_json(const HttpRequest& request);

template <typename Message>
Outcome<Message> read_body(const HttpRequest& request) {
  auto json = read_json(request);
  if (!json) return tl::unexpected(json.error());
  try {
    return json->get<Message>();
  } catch (const std::exception& error) {
    return tl::unexpected(bad_field("", error.what(), "invalid_message"));
  }
}

}  // namespace holdfast::rendezvous
