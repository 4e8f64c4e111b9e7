// From a request to its route, and whether whoever sent it may go there, and so often.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "rendezvous/secrets.h"
#include "rendezvous/service_impl.h"

namespace holdfast::rendezvous {
namespace {

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& parts,
             std::vector<std::string>& arguments) {
  arguments.clear();
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == "*" && parts.size() > i) {
      std::string rest = parts[i];
      for (size_t j = i + 1; j < parts.size(); ++j) rest += "/" + parts[j];
      arguments.push_back(rest);
      return true;
    }
    if (i >= parts.size()) return false;
    if (pattern[i] == "{}") {
      arguments.push_back(parts[i]);
    } else if (pattern[i] != parts[i]) {
      return false;
    }
  }
  return pattern.size() == parts.size();
}

std::string bearer_token(const HttpRequest& request) {
  const auto found = request.headers.find("authorization");
  if (found == request.headers.end()) return "";
  const std::string& value = found->second;
  constexpr std::string_view kScheme = "bearer ";
  const bool bearer = value.size() > kScheme.size() &&
                      std::equal(kScheme.begin(), kScheme.end(), value.begin(),
                                 [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  return bearer ? value.substr(kScheme.size()) : "";
}

std::vector<Role> roles_of(Access access) {
  switch (access) {
    case Access::kNone:
      break;
    case Access::kAny:
      return {Role::kRead, Role::kSubmit, Role::kAdmin, Role::kWorker};
    case Access::kWorker:
      return {Role::kWorker, Role::kAdmin};
    case Access::kRead:
      return {Role::kRead, Role::kSubmit, Role::kAdmin};
    case Access::kSubmit:
      return {Role::kSubmit, Role::kAdmin};
    case Access::kAdmin:
      return {Role::kAdmin};
  }
  return {};
}

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

}  // namespace

Service::Impl::Target Service::Impl::find_target(const HttpRequest& request) {
  const std::vector<std::string> parts = parts_of(request.path);
  Target target;
  std::set<std::string> methods;
  for (const Route& candidate : routes()) {
    if (!matches(candidate.path, parts, target.arguments)) continue;
    methods.insert(candidate.method);
    if (request.method != candidate.method) continue;
    target.route = &candidate;
    break;
  }
  if (target.route == nullptr && methods.empty()) {
    target.refusal = problem_answer(problem(404, "not_found", fmt::format("there is nothing at {}", request.path)));
  } else if (target.route == nullptr) {
    std::string allow;
    for (const std::string& method : methods) allow += (allow.empty() ? "" : ", ") + method;
    target.refusal = problem_answer(
        problem(405, "method_not_allowed", fmt::format("{} takes {}, not {}", request.path, allow, request.method)));
    target.refusal->headers["Allow"] = allow;
  } else if (target.route->access != Access::kNone) {
    const std::string secret = bearer_token(request);
    target.who = tokens_.find(secret, clock_.wall_ms());
    if (!target.who) {
      target.refusal = problem_answer(no_token(secret));
    } else if (const auto roles = roles_of(target.route->access); !allowed(roles, target.who->role)) {
      target.refusal = problem_answer(wrong_role(request, roles, *target.who));
    }
  }
  return target;
}

std::vector<Service::RouteSummary> Service::routes() {
  std::vector<RouteSummary> summaries;
  for (const Impl::Route& route : Impl::routes()) {
    RouteSummary& summary = summaries.emplace_back(RouteSummary{route.method, "", {}});
    for (const std::string& part : route.path) summary.path += fmt::format("/{}", part == "*" ? "{}" : part);
    for (const Role role : roles_of(route.access)) summary.roles.push_back(role_name(role));
  }
  return summaries;
}

void Service::Impl::load_tokens() {
  StoredTokens stored = state_.store().load_tokens();
  last_token_ = stored.last_number;
  for (TokenRow& row : stored.rows) tokens_.add(std::move(row));
  const auto of_file = [&](const char* name, Role role, const std::string& secret) {
    tokens_.add({name, name, role, secret_digest(secret), 0, 0, 0, true});
  };
  of_file("worker.token", Role::kWorker, options_.worker_token);
  of_file("admin.token", Role::kAdmin, options_.admin_token);  // last: it wins where both files hold the same
}

// Looked at before a request's body is read.
Admission Service::Impl::admit(const HttpRequest& request) {
  Target target = find_target(request);
  const bool known = target.who.has_value();
  if (!target.refusal) return {std::nullopt, known};
  if (target.refusal->status == 401 && !request.peer.empty() && !failures_.take(request.peer, clock_.steady_ms())) {
    return {problem_answer(
                problem(429, "too_many_failures",
                        fmt::format("too many requests without a valid token came from {}: wait a second", request.peer))),
            known};
  }
  return {std::move(target.refusal), known};
}

bool Service::Impl::asks_too_often(const Target& target) {
  return target.who && target.who->role != Role::kWorker && !requests_.take(target.who->id, clock_.steady_ms());
}

}  // namespace holdfast::rendezvous
