#include "rendezvous/store/rows.h"

#include <algorithm>
#include <array>
#include <utility>

namespace holdfast::rendezvous {
namespace {

constexpr std::array kRoles = {std::pair{Role::kRead, "read"}, std::pair{Role::kSubmit, "submit"},
                               std::pair{Role::kAdmin, "admin"}, std::pair{Role::kWorker, "worker"}};

}  // namespace

const char* role_name(Role role) {
  return std::ranges::find(kRoles, role, [](const auto& known) { return known.first; })->second;
}

std::optional<Role> role_from(std::string_view name) {
  for (const auto& [role, known] : kRoles) {
    if (name == known) return role;
  }
  return std::nullopt;
}

}  // namespace holdfast::rendezvous
