// TCP for netcheck: plain sockets where every wait has an absolute deadline.
//
// Promises: nothing blocks beyond its deadline; a descriptor is closed by its owner; errors are sentences for people.
// Refuses lines longer than it is told to take.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace holdfast::ops {

using NetClock = std::chrono::steady_clock;
template <typename T>
using NetResult = tl::expected<T, std::string>;

// A non-blocking socket and its owner.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct HostPort {
  std::string host, port;
};
NetResult<HostPort> parse_host_port(const std::string& text);  // "10.0.0.2:7071", "[fd00::2]:7071", "node2:7071"

NetResult<Socket> listen_on(const HostPort& where);  // port 0 picks a free one
// Names are resolved before the deadline counts: the resolver has its own. A name's addresses are tried in turn.
NetResult<Socket> connect_to(const HostPort& where, NetClock::time_point deadline);
// Until when the next of so many addresses is tried: its share of the time left, so that one which swallows everything leaves
// some to the others.
NetClock::time_point turn_ends(NetClock::time_point now, NetClock::time_point deadline, int64_t addresses_left);
// The next one who connects. An error before the deadline is this machine's; at the deadline it says that nobody came.
NetResult<Socket> accept_from(const Socket& listener, NetClock::time_point deadline);

// Errors of accept(2) that are of one connection, or of its network, and not of the listener: the next one may come.
bool is_of_one_connection(int accept_error);

// The address to give to another node when this one, of name `host`, listens on `own`: that, but for an address that stands for
// all of them ("0.0.0.0:7071": "node2:7071").
std::string address_from_elsewhere(const std::string& own, const std::string& host);
std::string own_address(const Socket& socket);    // "127.0.0.1:7071"
std::string peers_address(const Socket& socket);  // "" when it is gone

// Until one of poll's `events` is there (or the connection is broken, which the next read or write tells).
NetResult<void> wait_for(const Socket& socket, short events, NetClock::time_point deadline);
NetResult<void> write_all(const Socket& socket, std::string_view bytes, NetClock::time_point deadline);
// A line without its break; not a byte behind it is taken.
NetResult<std::string> read_line(const Socket& socket, size_t bytes_max, NetClock::time_point deadline);

// "there: Connection reset by peer", of errno.
std::string failure_text(const char* what, int error);

}  // namespace holdfast::ops
