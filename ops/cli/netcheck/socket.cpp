#include "ops/cli/netcheck/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>

#include "rendezvous/text/errno_text.h"

namespace holdfast::ops {
namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

std::string text_of_address(const HostPort& where) {
  return where.host.find(':') == std::string::npos ? where.host + ":" + where.port
                                                   : fmt::format("[{}]:{}", where.host, where.port);
}

NetResult<AddressList> resolve(const HostPort& where, int flags) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  const int error = getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found);
  if (error != 0) return tl::unexpected(fmt::format("{}: {}", text_of_address(where), gai_strerror(error)));
  return AddressList(found, &freeaddrinfo);
}

std::string numeric_text(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "";
  return text_of_address({host, port});
}

void set_option(int fd, int level, int name) {
  const int yes = 1;
  setsockopt(fd, level, name, &yes, sizeof yes);  // without it the check is slower, not wrong
}

NetResult<Socket> connect_one(const addrinfo& address, NetClock::time_point deadline) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return tl::unexpected(failure_text("no socket", errno));
  set_option(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return tl::unexpected(failure_text("cannot connect", errno));
  if (auto ready = wait_for(socket, POLLOUT, deadline); !ready) return tl::unexpected("cannot connect: " + ready.error());
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return tl::unexpected(failure_text("cannot connect", error));
  return socket;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

std::string failure_text(const char* what, int error) {
  return fmt::format("{}: {}", what, rendezvous::describe_errno(error));
}

NetResult<HostPort> parse_host_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string::npos) parsed = {text.substr(0, colon), text.substr(colon + 1)};
  if (parsed.host.starts_with('[') && parsed.host.ends_with(']')) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  const bool digits = !parsed.port.empty() && parsed.port.size() <= 5 &&
                      std::ranges::all_of(parsed.port, [](char c) { return c >= '0' && c <= '9'; });
  if (parsed.host.empty() || !digits || std::stoi(parsed.port) > 65535)
    return tl::unexpected(fmt::format("{}: expected HOST:PORT, such as 192.168.1.2:7071", text));
  return parsed;
}

NetResult<Socket> listen_on(const HostPort& where) {
  const auto list = resolve(where, AI_PASSIVE);
  if (!list) return tl::unexpected("cannot listen on " + list.error());
  const addrinfo& address = **list;
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() >= 0) set_option(socket.fd(), SOL_SOCKET, SO_REUSEADDR);
  if (socket.fd() < 0 || bind(socket.fd(), address.ai_addr, address.ai_addrlen) != 0 || ::listen(socket.fd(), 4) != 0) {
    const int error = errno;
    return tl::unexpected(
        fmt::format("cannot listen on {}. Choose a free port of an address of this machine: HOST:PORT, port 0 "
                    "picks one",
                    failure_text(text_of_address(where).c_str(), error)));
  }
  return socket;
}

NetClock::time_point turn_ends(NetClock::time_point now, NetClock::time_point deadline, int64_t addresses_left) {
  return now + (deadline - now) / addresses_left;
}

NetResult<Socket> connect_to(const HostPort& where, NetClock::time_point deadline) {
  const auto list = resolve(where, 0);
  if (!list) return tl::unexpected(list.error());
  std::string first_error;
  int64_t left = 0;
  for (const addrinfo* address = list->get(); address != nullptr; address = address->ai_next) ++left;
  for (const addrinfo* address = list->get(); address != nullptr; address = address->ai_next, --left) {
    auto socket = connect_one(*address, turn_ends(NetClock::now(), deadline, left));
    if (socket) return socket;
    if (first_error.empty()) first_error = socket.error();
  }
  return tl::unexpected(fmt::format("{}: {}", text_of_address(where), first_error));
}

bool is_of_one_connection(int accept_error) {
  static constexpr int kErrors[] = {EAGAIN,    ECONNABORTED, EINTR,        ENETDOWN,   EPROTO,     ENOPROTOOPT,
                                    EHOSTDOWN, ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};
  return std::ranges::find(kErrors, accept_error) != std::end(kErrors);
}

NetResult<Socket> accept_from(const Socket& listener, NetClock::time_point deadline) {
  for (;;) {
    if (auto ready = wait_for(listener, POLLIN, deadline); !ready) return tl::unexpected(ready.error());
    Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.fd() >= 0) {
      set_option(socket.fd(), IPPROTO_TCP, TCP_NODELAY);
      return socket;
    }
    if (!is_of_one_connection(errno)) return tl::unexpected(failure_text("cannot accept", errno));
  }
}

std::string address_from_elsewhere(const std::string& own, const std::string& host) {
  const bool any = own.starts_with("0.0.0.0:") || own.starts_with("[::]:");
  return any ? host + own.substr(own.rfind(':')) : own;
}

std::string own_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0 ? numeric_text(address, size) : "";
}

std::string peers_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) == 0 ? numeric_text(address, size) : "";
}

NetResult<void> wait_for(const Socket& socket, short events, NetClock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - NetClock::now()).count();
    if (left <= 0) return tl::unexpected(std::string("no answer in time"));
    pollfd waiting{socket.fd(), events, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 3'600'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return tl::unexpected(failure_text("cannot wait", errno));
  }
}

NetResult<void> write_all(const Socket& socket, std::string_view bytes, NetClock::time_point deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return tl::unexpected(failure_text("the connection broke", errno));
    } else if (auto ready = wait_for(socket, POLLOUT, deadline); !ready) {
      return ready;
    }
  }
  return {};
}

NetResult<std::string> read_line(const Socket& socket, size_t bytes_max, NetClock::time_point deadline) {
  std::string line;
  for (;;) {
    char next = 0;
    const ssize_t got = recv(socket.fd(), &next, 1, 0);
    if (got == 1 && next == '\n') return line;
    if (got == 1 && line.size() == bytes_max) {
      return tl::unexpected(fmt::format("a line of more than {} bytes: that is no netcheck", bytes_max));
    }
    if (got == 1) {
      line += next;
    } else if (got == 0) {
      return tl::unexpected(std::string("the other side closed the connection"));
    } else if (errno != EAGAIN && errno != EINTR) {
      return tl::unexpected(failure_text("the connection broke", errno));
    } else if (auto ready = wait_for(socket, POLLIN, deadline); !ready) {
      return tl::unexpected(ready.error());
    }
  }
}

}  // namespace holdfast::ops
