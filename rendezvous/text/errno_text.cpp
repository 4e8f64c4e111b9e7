#include "rendezvous/text/errno_text.h"

#include <system_error>

namespace holdfast::rendezvous {

std::string describe_errno(int error) {
  return std::generic_category().message(error);
}

}  // namespace holdfast::rendezvous
