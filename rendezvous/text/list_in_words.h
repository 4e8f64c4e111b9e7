// Lists of names in sentences.
#pragma once

#include <string>
#include <vector>

namespace holdfast::rendezvous {

// "w1, w2 and w3"; of many the first dozens and how many more.
std::string in_words(const std::vector<std::string>& names);

}  // namespace holdfast::rendezvous
