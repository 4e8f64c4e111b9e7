#include "rendezvous/api/answers/problems.h"

#include <fmt/format.h>

#include <map>

namespace holdfast::rendezvous {

Problem problem(int status, const std::string& code, const std::string& detail) {
  static const std::map<int, std::string> kTitles = {
      {400, "Bad request"},        {401, "No valid token"}, {403, "Not allowed"},       {404, "Not found"},
      {405, "Method not allowed"}, {409, "Conflict"},       {412, "Changed meanwhile"}, {422, "Damaged"},
      {429, "Too many"},           {500, "Internal error"}, {503, "Not available"},     {507, "No space"}};
  const auto title = kTitles.find(status);
  return {status, title == kTitles.end() ? "Error" : title->second, detail, code, {}};
}

Problem bad_field(const std::string& field, const std::string& message, const std::string& code) {
  Problem bad = problem(400, code, field.empty() ? message : fmt::format("{}: {}", field, message));
  if (!field.empty()) bad.errors.push_back({field, message});
  return bad;
}

Problem problem_of(const Refusal& refusal) {
  int status = 400;
  switch (refusal.kind) {
    case Refusal::Kind::kNotKnown:
      status = 404;
      break;
    case Refusal::Kind::kWrongState:
    case Refusal::Kind::kStale:
      status = 409;
      break;
    case Refusal::Kind::kInvalid:
      break;
  }
  Problem answer = problem(status, refusal.code, refusal.detail);
  answer.errors = refusal.errors;
  return answer;
}

}  // namespace holdfast::rendezvous
