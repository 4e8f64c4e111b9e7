// The probe is bound and listening for an instant, with SO_REUSEADDR as the server has it.
#include "rendezvous/http_listen_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

namespace holdfast::rendezvous {
namespace {

std::string bind_failure(const std::string& listen, int error) {
  std::string text = fmt::format("cannot listen on {}: {}.", listen, std::system_category().message(error));
  const size_t colon = listen.rfind(':');
  if (error == EADDRINUSE) {
    text +=
        fmt::format(" Another program has port {}: stop it, or choose another port with --listen {}:PORT (0 picks a free one).",
                    listen.substr(colon + 1), listen.substr(0, colon));
  } else if (error == EACCES) {
    text += " Ports below 1024 need privileges: choose a higher one with --listen HOST:PORT.";
  } else {
    text += " Choose an address of this machine with --listen HOST:PORT (0.0.0.0 means all of them).";
  }
  return text;
}

// "localhost" means 127.0.0.1 where it means both.
const addrinfo* preferred(const addrinfo* first) {
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET) return entry;
  }
  return first;
}

// 0, or errno; `bound` is the address it got.
int try_to_listen(const addrinfo& address, sockaddr_storage& bound, socklen_t& size) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  int error = 0;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      bind(fd, address.ai_addr, address.ai_addrlen) != 0 || listen(fd, 1) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    error = errno;
  }
  if (fd >= 0) close(fd);
  return error;
}

}  // namespace

tl::expected<ListenAddress, std::string> find_listen_address(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon + 1 == listen.size()) {
    return tl::unexpected(fmt::format("cannot listen on {}: expected HOST:PORT, such as 127.0.0.1:7070", listen));
  }
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int error = getaddrinfo(host.c_str(), listen.c_str() + colon + 1, &hints, &found); error != 0) {
    return tl::unexpected(
        fmt::format("cannot listen on {}: {}. Expected HOST:PORT, such as 127.0.0.1:7070", listen, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, &freeaddrinfo);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (const int error = try_to_listen(*preferred(found), bound, size); error != 0)
    return tl::unexpected(bind_failure(listen, error));
  char text_host[NI_MAXHOST], text_port[NI_MAXSERV];
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, text_host, sizeof text_host, text_port, sizeof text_port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return ListenAddress{bound.ss_family == AF_INET6 ? fmt::format("[{}]", text_host) : text_host, std::atoi(text_port)};
}

}  // namespace holdfast::rendezvous
