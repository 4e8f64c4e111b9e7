// "Did you mean ...?": the known name that a mistyped one is nearest to.
#pragma once

#include <string>
#include <vector>

namespace holdfast::rendezvous {

// The name with the fewest changes (insert, delete, replace) from `typed`; "" when none is near enough to be meant.
std::string nearest_name(const std::string& typed, const std::vector<std::string>& known);

}  // namespace holdfast::rendezvous
