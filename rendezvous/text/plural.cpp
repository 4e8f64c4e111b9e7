#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {

std::string plural(int64_t count, const std::string& one, const std::string& many) {
  if (count == 1) return one;
  return many.empty() ? one + "s" : many;
}

std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + plural(count, one, many);
}

}  // namespace holdfast::rendezvous
