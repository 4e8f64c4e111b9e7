// The order in which people expect names: w2 before w10.
#pragma once

#include <string>

namespace holdfast::rendezvous {

// Digits compare as numbers, everything else byte by byte.
bool natural_less(const std::string& a, const std::string& b);

}  // namespace holdfast::rendezvous
