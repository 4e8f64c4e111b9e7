#include "rendezvous/client/retry.h"

namespace holdfast::rendezvous {

bool is_worth_repeating(int status) {
  return status >= 500 || status == 408 || status == 429;
}

bool is_worth_repeating(const HttpFailure& failure) {
  return failure.unreachable || is_worth_repeating(failure.problem.status) || failure.problem.code == "altered_on_the_way";
}

}  // namespace holdfast::rendezvous
