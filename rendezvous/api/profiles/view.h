// A profile as the API shows it: how far it is; when it is done, what a step costs. The trace is apart.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "rendezvous/profile/book.h"

namespace holdfast::rendezvous {

inline constexpr size_t kCostsShown = 10;  // the largest

nlohmann::json show_profile(const Profile& profile);

}  // namespace holdfast::rendezvous
