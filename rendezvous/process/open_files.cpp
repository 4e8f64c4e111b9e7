#include "rendezvous/process/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/client/socket_address.h"
#include "rendezvous/text/errno_text.h"

namespace holdfast::rendezvous {
namespace {

// "unlimited" is the largest rlim_t, which int64_t does not hold.
int64_t number_of(rlim_t limit) {
  return static_cast<int64_t>(std::min<rlim_t>(limit, INT64_MAX));
}

}  // namespace

OpenFiles raise_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {0, "the limit cannot be read: " + describe_errno(errno)};
  const int64_t before = number_of(limit.rlim_cur);
  if (limit.rlim_cur == limit.rlim_max) return {before, ""};
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return {before, "the limit cannot be raised: " + describe_errno(errno)};
  return {number_of(limit.rlim_cur), ""};
}

}  // namespace holdfast::rendezvous
