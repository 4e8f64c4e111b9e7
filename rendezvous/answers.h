// Answers and questions of the API in their common forms: JSON, problems, pages of lists.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "rendezvous/coordinator.h"
#include "rendezvous/http_server.h"
#include "storage/object_store.h"

namespace holdfast::rendezvous {

HttpResponse json_answer(int status, const nlohmann::json& body);
HttpResponse empty_answer(int status = 204);
HttpResponse problem_answer(const Problem& problem);
// 400 that names one field or query parameter.
Problem bad_field(const std::string& field, const std::string& message, const std::string& code = "bad_request");

// What a checkpoint store could not do.
Problem storage_problem(const storage::Error& error);

// A query parameter as an integer within [min, max]; `otherwise` when it is not there.
Outcome<int64_t> integer_query(const HttpRequest& request, const std::string& name, int64_t min, int64_t max,
                               int64_t otherwise);
// 1 or true, 0 or false; false when it is not there.
Outcome<bool> flag_query(const HttpRequest& request, const std::string& name);
std::string text_query(const HttpRequest& request, const std::string& name);

// A list is cut into pages: `limit` rows after a position. The token for the next page is opaque to callers.
constexpr int64_t kPageRows = 100;  // where no limit is said
struct Page {
  int64_t limit = kPageRows;
  int64_t after = 0;  // 0: from the start
};
constexpr int64_t kPageRowsMax = 1000;
Outcome<Page> page_of(const HttpRequest& request, int64_t limit_otherwise = kPageRows);
nlohmann::json next_page_token(int64_t after);  // null for 0: there is no next page

// The body as one message. Malformed JSON and fields that do not fit are 400s that say where.
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
