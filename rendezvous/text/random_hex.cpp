#include "rendezvous/text/random_hex.h"

#include <sys/random.h>
#include <sys/types.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "rendezvous/text/hex.h"

namespace holdfast::rendezvous {

std::string random_hex(size_t bytes) {
  std::vector<std::byte> buffer(bytes);
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = getrandom(buffer.data() + done, bytes - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw std::system_error(errno, std::system_category(), "getrandom");
    done += static_cast<size_t>(got);
  }
  return hex(buffer);
}

}  // namespace holdfast::rendezvous
