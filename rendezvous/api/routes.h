// The routes: the places of the API, who may go there, and which part of the service answers. openapi.json describes the same,
// and a test compares the two.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "rendezvous/api/turn/call.h"

namespace holdfast::rendezvous {

struct Parts;

// Which roles may go there. kWorker: a worker's or an administrator's token. kAny: a token of any role.
enum class Access { kNone, kAny, kWorker, kRead, kSubmit, kAdmin };
std::vector<Role> roles_of(Access access);  // none: no token is needed

struct Route {
  const char* method;
  std::vector<std::string> path;  // "{}" stands for one part, a last "*" for all the rest
  Access access;
  void (*handler)(Parts& parts, Call& call);
};
const std::vector<Route>& routes();

struct RouteMatch {
  const Route* route = nullptr;        // null: there is none for this path and method
  std::vector<std::string> arguments;  // the parts of the path at {} and *
  std::set<std::string> methods;       // that the path takes, when `route` is null; none: there is no such path
};
RouteMatch find_route(const std::string& method, const std::string& path);

}  // namespace holdfast::rendezvous
