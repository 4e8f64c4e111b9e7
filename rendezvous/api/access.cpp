#include "rendezvous/api/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/http/bearer_token.h"

namespace holdfast::rendezvous {
namespace {

constexpr double kFailuresPerSecond = 1, kFailuresAtOnce = 50;

bool allowed(const std::vector<Role>& roles, Role role) {
  return std::ranges::find(roles, role) != roles.end();
}

Problem no_token(const std::string& secret) {
  return problem(
      401, "no_token",
      secret.empty()
          ? "send `Authorization: Bearer TOKEN`; the service's DATA_DIR/admin.token holds one (HOLDFAST_TOKEN carries it)"
          : "this token is not one of this service's, or it has expired or was revoked; see its DATA_DIR/admin.token and "
            "worker.token, or have a new one made: holdfast tokens create");
}

Problem wrong_role(const HttpRequest& request, const std::vector<Role>& roles, const TokenRow& who) {
  std::string wanted;
  for (const Role role : roles) wanted += fmt::format("{}{}", wanted.empty() ? "" : " or ", role_name(role));
  return problem(403, "not_allowed",
                 fmt::format("{} {} needs a token of role {}; this one ({}) has the role {}", request.method, request.path,
                             wanted, who.name, role_name(who.role)));
}

HttpResponse no_place(const HttpRequest& request, const std::set<std::string>& methods) {
  if (methods.empty()) return problem_answer(problem(404, "not_found", fmt::format("there is nothing at {}", request.path)));
  std::string allow;
  for (const std::string& method : methods) allow += (allow.empty() ? "" : ", ") + method;
  HttpResponse response = problem_answer(
      problem(405, "method_not_allowed", fmt::format("{} takes {}, not {}", request.path, allow, request.method)));
  response.headers["Allow"] = allow;
  return response;
}

}  // namespace

AccessControl::AccessControl(TokenBook& tokens, const Clock& clock, double requests_per_s)
    : tokens_(tokens),
      clock_(clock),
      requests_per_s_(requests_per_s),
      requests_(requests_per_s, 2 * requests_per_s),
      failures_(kFailuresPerSecond, kFailuresAtOnce) {}

Target AccessControl::find_target(const HttpRequest& request) {
  RouteMatch match = find_route(request.method, request.path);
  Target target;
  target.route = match.route;
  target.arguments = std::move(match.arguments);
  target.refusal = target.route == nullptr ? no_place(request, match.methods) : check_token(request, target);
  return target;
}

std::optional<HttpResponse> AccessControl::check_token(const HttpRequest& request, Target& target) {
  const std::vector<Role> roles = roles_of(target.route->access);
  if (roles.empty()) return std::nullopt;
  const std::string secret = bearer_token(request);
  target.who = tokens_.find(secret, clock_.wall_ms());
  if (target.who) {
    return allowed(roles, target.who->role) ? std::nullopt
                                            : std::optional(problem_answer(wrong_role(request, roles, *target.who)));
  }
  if (!request.peer.empty() && !failures_.take(request.peer, clock_.steady_ms())) {
    return problem_answer(
        problem(429, "too_many_failures",
                fmt::format("too many requests without a valid token came from {}: wait a second", request.peer)));
  }
  return problem_answer(no_token(secret));
}

std::optional<HttpResponse> AccessControl::refuse_excess(const Target& target) {
  if (!target.who || target.who->role == Role::kWorker || requests_.take(target.who->id, clock_.steady_ms()))
    return std::nullopt;
  return problem_answer(problem(429, "too_many_requests",
                                fmt::format("the token {} asks more than {:.0f} times a second: wait, or follow instead",
                                            target.who->name, requests_per_s_)));
}

}  // namespace holdfast::rendezvous
