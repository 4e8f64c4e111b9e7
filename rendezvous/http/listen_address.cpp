// Resolves names, and puts errors into words.
#include "rendezvous/http/listen_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "rendezvous/text/errno_text.h"

namespace holdfast::rendezvous {
namespace {

constexpr int kBacklog = 1024;

std::string bind_failure(const std::string& listen, int error) {
  std::string text = fmt::format("cannot listen on {}: {}.", listen, describe_errno(error));
  const size_t colon = listen.rfind(':');
  if (error == EADDRINUSE) {
    text += fmt::format(
        " Another program has port {}: stop it (`ss -ltnp` shows which), or choose another port with --listen {}:PORT "
        "(0 picks a free one).",
        listen.substr(colon + 1), listen.substr(0, colon));
  } else if (error == EACCES) {
    text += " Ports below 1024 need privileges: choose a higher one with --listen HOST:PORT.";
  } else {
    text += " Choose an address of this machine with --listen HOST:PORT (0.0.0.0 means all of them).";
  }
  return text;
}

// "localhost" may mean 127.0.0.1 and ::1; 127.0.0.1 is taken then.
const addrinfo* preferred(const addrinfo* first) {
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET) return entry;
  }
  return first;
}

// The socket, or the negative errno.
int try_to_listen(const addrinfo& address) {
  const int file = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  if (file >= 0 && setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      bind(file, address.ai_addr, address.ai_addrlen) == 0 && listen(file, kBacklog) == 0) {
    return file;
  }
  const int error = errno;
  if (file >= 0) close(file);
  return -error;
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

tl::expected<Addresses, std::string> resolve(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon + 1 == listen.size()) {
    return tl::unexpected(fmt::format("cannot listen on {}: expected HOST:PORT, such as 127.0.0.1:7070", listen));
  }
  std::string host = listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "*") host.clear();
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const char* name = host.empty() ? nullptr : host.c_str();
  if (const int error = getaddrinfo(name, listen.c_str() + colon + 1, &hints, &found); error != 0) {
    return tl::unexpected(
        fmt::format("cannot listen on {}: {}. Expected HOST:PORT, such as 127.0.0.1:7070", listen, gai_strerror(error)));
  }
  return Addresses(found, &freeaddrinfo);
}

int port_of(int file) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(file, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

}  // namespace

tl::expected<bool, std::string> listens_on_loopback(const std::string& listen) {
  const auto found = resolve(listen);
  if (!found) return tl::unexpected(found.error());
  const addrinfo& address = *preferred(found->get());
  if (address.ai_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr) != 0;
  return ntohl(reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

tl::expected<ListeningSocket, std::string> listen_on(const std::string& listen) {
  const auto found = resolve(listen);
  if (!found) return tl::unexpected(found.error());
  const addrinfo& address = *preferred(found->get());
  const int file = try_to_listen(address);
  if (file < 0) return tl::unexpected(bind_failure(listen, -file));
  return ListeningSocket{file, address.ai_family == AF_INET6, port_of(file)};
}

}  // namespace holdfast::rendezvous
