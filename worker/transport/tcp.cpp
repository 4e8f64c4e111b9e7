// The transport seam over TCP: non-blocking sockets, poll(), and an eventfd for wake().
//
// Promises: no call blocks but wait(), which knows what an encrypted stream holds; no SIGPIPE; every socket is close-on-exec,
// so that a child keeps no ring alive. Socket options, and why:
//   TCP_NODELAY           a chunk's last packet leaves at once; where more follows directly, MSG_MORE says so
//   SO_REUSEADDR          a fixed listen port can be taken again while old connections are in TIME_WAIT
//   SO_KEEPALIVE          idle 10 s, then a probe every 5 s, 6 of them: an idle connection to a dead node breaks in 40 s
//   TCP_USER_TIMEOUT      set_stall_limit(): a node that takes nothing for so long breaks the stream. It overrides the
//                         kernel's own 15 minutes of retransmission, and the count of keepalive probes above
//   SO_SNDBUF, SO_RCVBUF  left to the kernel's autotuning
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <utility>

#include "rendezvous/client/socket_address.h"
#include "rendezvous/text/errno_text.h"
#include "worker/transport/tls_stream.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {
namespace {

using rendezvous::describe_errno;
using rendezvous::parse_address;
using rendezvous::SocketAddress;

constexpr int kBacklog = 512;  // peers of the coming generation, and whatever else knocks, wait here
constexpr int kKeepaliveIdleSeconds = 10;
constexpr int kKeepaliveIntervalSeconds = 5;
constexpr int kKeepaliveProbes = 6;

using Kind = TransportError::Kind;

tl::unexpected<TransportError> failure(Kind kind, const std::string& detail) {
  return tl::make_unexpected(TransportError{kind, detail});
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

void set_option(const Descriptor& fd, int level, int option, int value) {
  setsockopt(fd.get(), level, option, &value, sizeof value);  // none of them is needed for being correct
}

void set_stream_options(const Descriptor& fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepaliveIdleSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepaliveIntervalSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepaliveProbes);
}

// Within a node nothing is congested, and a control that paces what it sends (BBR does, by timers) only costs: 15 % of the
// processor time of four ranks. Reno is part of every kernel and paces nothing.
void skip_congestion_control(const Descriptor& fd) {
  static constexpr char kReno[] = "reno";
  setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, kReno, sizeof kReno - 1);
}

SocketAddress with_port(SocketAddress address, uint16_t port) {
  address.set_port(port);
  return address;
}

class TcpConnection final : public Connection {
 public:
  TcpConnection(Descriptor fd, std::string peer, bool connecting)
      : fd_(std::move(fd)), peer_(std::move(peer)), connecting_(connecting) {
    set_stream_options(fd_);
  }

  TransportResult<size_t> send_some(std::span<const std::byte> bytes, bool more) override {
    if (tls_) return tls_->send_some(bytes, more);
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    ssize_t n = 0;
    do n = send(fd_.get(), bytes.data(), bytes.size(), flags);
    while (n < 0 && errno == EINTR);
    return moved(n, "send to ");
  }

  TransportResult<size_t> receive_some(std::span<std::byte> bytes) override {
    if (tls_) return tls_->receive_some(bytes);
    if (bytes.empty()) return 0;
    ssize_t n = 0;
    do n = recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == 0) return failure(Kind::kClosed, peer_ + " closed the connection");
    return moved(n, "receive from ");
  }

  TransportResult<bool> encrypt(const StreamKey& key, bool begins) override {
    if (!tls_) tls_ = std::make_unique<TlsStream>(fd_.get(), peer_, key, begins);
    return tls_->shake_hands();
  }
  std::string encryption() const override { return tls_ ? tls_->words() : ""; }

  void set_stall_limit(std::chrono::milliseconds limit) override {
    const auto bounded = std::clamp<int64_t>(limit.count(), 1, std::numeric_limits<int>::max());
    set_option(fd_, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(bounded));
  }

  bool within_node() const override {
    SocketAddress mine, theirs;
    return ends(mine, theirs) && with_port(mine, 0) == with_port(theirs, 0);
  }

  std::string peer() const override { return peer_; }
  int descriptor() const { return fd_.get(); }
  int16_t events(bool to_send, bool to_receive) const {
    if (tls_) return tls_->events(to_send, to_receive);
    return static_cast<int16_t>((to_send ? POLLOUT : 0) | (to_receive ? POLLIN : 0));
  }
  bool may_hold_received() const { return tls_ && tls_->may_hold_received(); }

 private:
  TransportResult<size_t> moved(ssize_t n, const char* doing) {
    if (n >= 0) {
      connecting_ = false;
      return static_cast<size_t>(n);
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) {
      if (connecting_ && connected_to_itself())
        return failure(Kind::kRefused, "connect to " + peer_ + ": nobody listens there");
      return 0;
    }
    const bool refused = connecting_ && error == ECONNREFUSED;
    const bool ended = !connecting_ && (error == ECONNRESET || error == EPIPE);
    return failure(refused ? Kind::kRefused
                   : ended ? Kind::kClosed
                           : Kind::kFailed,
                   (connecting_ ? "connect to " : doing) + peer_ + ": " + describe_errno(error));
  }

  // A connect to a free port of this node that happens to get the same port as its own meets itself.
  bool connected_to_itself() {
    SocketAddress mine, theirs;
    if (!ends(mine, theirs)) return false;  // not connected yet
    connecting_ = false;
    return mine == theirs;
  }

  bool ends(SocketAddress& mine, SocketAddress& theirs) const {
    mine.length = theirs.length = sizeof(sockaddr_storage);
    return getpeername(fd_.get(), theirs.get(), &theirs.length) == 0 && getsockname(fd_.get(), mine.get(), &mine.length) == 0;
  }

  Descriptor fd_;
  std::string peer_;
  bool connecting_;                 // no byte has moved, and it is not known to be connected
  std::unique_ptr<TlsStream> tls_;  // over fd_, from encrypt() on
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(Descriptor listener, Descriptor wake, std::string address)
      : listener_(std::move(listener)), wake_(std::move(wake)), address_(std::move(address)) {}

  std::string address() const override { return address_; }

  // A machine's boot has a number of its own, in all of its containers. Containers with addresses of their own are nodes of
  // their own.
  std::string node() const override {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string boot;
    if (!std::getline(file, boot) || boot.empty()) return "";
    return boot + " " + with_port(*parse_address(address_), 0).text();
  }

  TransportResult<std::unique_ptr<Connection>> connect(const std::string& address) override {
    const auto target = parse_address(address);
    if (!target) return failure(Kind::kFailed, target.error());
    Descriptor fd(socket(target->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return failure(Kind::kFailed, "socket for " + address + ": " + describe_errno(errno));
    if (with_port(*target, 0) == with_port(*parse_address(address_), 0)) skip_congestion_control(fd);
    const int rc = ::connect(fd.get(), target->get(), target->length);
    if (rc != 0 && errno != EINPROGRESS && errno != EINTR) {
      return failure(errno == ECONNREFUSED ? Kind::kRefused : Kind::kFailed,
                     "connect to " + address + ": " + describe_errno(errno));
    }
    return std::make_unique<TcpConnection>(std::move(fd), address, true);
  }

  TransportResult<std::unique_ptr<Connection>> accept_now() override {
    for (;;) {
      SocketAddress peer;
      peer.length = sizeof peer.storage;
      Descriptor fd(accept4(listener_.get(), peer.get(), &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.valid()) return std::make_unique<TcpConnection>(std::move(fd), peer.text(), false);
      const int error = errno;
      if (error == EAGAIN || error == EWOULDBLOCK) return nullptr;
      // These speak of one connection that went away before it was accepted, not of the listener (accept(2)).
      if (error == EINTR || error == ECONNABORTED || error == EPROTO || error == ENETDOWN || error == EHOSTUNREACH ||
          error == ENETUNREACH || error == EHOSTDOWN || error == ENOPROTOOPT || error == EPERM) {
        continue;
      }
      return failure(Kind::kFailed, "accept on " + address_ + ": " + describe_errno(error));
    }
  }

  TransportResult<void> wait(std::span<const Interest> interests, bool accept, Deadline deadline) override {
    polled_.clear();
    polled_.push_back({wake_.get(), POLLIN, 0});
    if (accept) polled_.push_back({listener_.get(), POLLIN, 0});
    bool holds_some = false;  // received already: no poll() tells of it
    for (const Interest& interest : interests) {
      const auto& connection = *static_cast<const TcpConnection*>(interest.connection);
      polled_.push_back({connection.descriptor(), connection.events(interest.to_send, interest.to_receive), 0});
      holds_some |= interest.to_receive && connection.may_hold_received();
    }
    for (;;) {
      const int ready = poll(polled_.data(), polled_.size(), holds_some ? 0 : milliseconds_until(deadline));
      if (ready < 0 && errno != EINTR) return failure(Kind::kFailed, "poll: " + describe_errno(errno));
      if (ready > 0) return polled_[0].revents ? take_wake() : TransportResult<void>{};
      if (holds_some) return {};
      if (std::chrono::steady_clock::now() >= deadline) return failure(Kind::kTimeout, "the deadline passed");
    }
  }

  std::optional<size_t> wait_for_lost_peer(std::span<Connection* const> connections, std::stop_token stop) override {
    const Descriptor stopped(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (stopped.get() < 0) return std::nullopt;  // without it nothing would end the wait
    const std::stop_callback wake_up(stop, [&stopped] { signal(stopped); });
    std::vector<pollfd> polled = ends_of(connections);
    polled.push_back({stopped.get(), POLLIN, 0});
    while (!stop.stop_requested()) {
      if (poll(polled.data(), polled.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return std::nullopt;  // no descriptors or no memory left: the next collective notices the lost peer
      }
      if (const auto lost = first_ended(std::span(polled).first(connections.size()))) return lost;
    }
    return std::nullopt;
  }

  std::optional<size_t> lost_peer(std::span<Connection* const> connections) override {
    std::vector<pollfd> polled = ends_of(connections);
    return poll(polled.data(), polled.size(), 0) > 0 ? first_ended(polled) : std::nullopt;
  }

  std::vector<size_t> refusing(std::span<const std::string> addresses, std::chrono::milliseconds limit) const override {
    std::vector<size_t> refused, asked;  // indices
    std::vector<Descriptor> sockets;
    std::vector<pollfd> polled;  // of `asked`
    for (size_t i = 0; i < addresses.size(); ++i) {
      const auto target = parse_address(addresses[i]);
      if (!target) continue;
      Descriptor fd(socket(target->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (!fd.valid() || ::connect(fd.get(), target->get(), target->length) == 0) continue;
      if (errno == ECONNREFUSED) refused.push_back(i);
      if (errno != EINPROGRESS) continue;
      asked.push_back(i);
      polled.push_back({fd.get(), POLLOUT, 0});
      sockets.push_back(std::move(fd));
    }
    const Deadline deadline = std::chrono::steady_clock::now() + limit;
    for (size_t open = polled.size(); open > 0 && poll(polled.data(), polled.size(), milliseconds_until(deadline)) > 0;) {
      for (size_t i = 0; i < polled.size(); ++i) {
        if (polled[i].revents == 0) continue;
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(polled[i].fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == ECONNREFUSED)
          refused.push_back(asked[i]);
        polled[i].fd = -1;  // answered: poll() passes over it
        polled[i].revents = 0;
        --open;
      }
    }
    std::ranges::sort(refused);
    return refused;
  }

  void wake() override { signal(wake_); }

 private:
  static void signal(const Descriptor& event) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(event.get(), &one, sizeof one);  // fails only when it is already set
  }

  static std::vector<pollfd> ends_of(std::span<Connection* const> connections) {
    std::vector<pollfd> polled;
    for (Connection* const connection : connections)
      polled.push_back({static_cast<const TcpConnection*>(connection)->descriptor(), POLLRDHUP, 0});
    return polled;
  }
  static std::optional<size_t> first_ended(std::span<const pollfd> polled) {
    const auto ended = std::ranges::find_if(polled, [](const pollfd& end) { return end.revents != 0; });
    return ended == polled.end() ? std::nullopt : std::optional(static_cast<size_t>(ended - polled.begin()));
  }

  static int milliseconds_until(Deadline deadline) {
    using std::chrono::milliseconds;
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, std::numeric_limits<int>::max()));
  }

  TransportResult<void> take_wake() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(wake_.get(), &count, sizeof count);
    return failure(Kind::kWoken, "woken");
  }

  Descriptor listener_, wake_;
  std::string address_;
  std::vector<pollfd> polled_;  // kept between waits for its memory
};

TransportResult<std::unique_ptr<Transport>> transport_of(Descriptor listener, SocketAddress address) {
  address.length = sizeof address.storage;
  if (getsockname(listener.get(), address.get(), &address.length) != 0) {
    return failure(Kind::kFailed, "the port of " + address.text() + ": " + describe_errno(errno));
  }
  Descriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.valid()) return failure(Kind::kFailed, "eventfd: " + describe_errno(errno));
  return std::make_unique<TcpTransport>(std::move(listener), std::move(wake), address.text());
}

// The error is errno's.
tl::expected<Descriptor, int> listener_at(const SocketAddress& address) {
  Descriptor listener(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return tl::unexpected(errno);
  set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(listener.get(), address.get(), address.length) != 0 || listen(listener.get(), kBacklog) != 0)
    return tl::unexpected(errno);
  return listener;
}

TransportResult<std::unique_ptr<Transport>> listen_at(SocketAddress address, PortRange ports) {
  const std::string wanted = ports.first == ports.last ? address.text() : address.text() + " to " + std::to_string(ports.last);
  for (;;) {
    auto listener = listener_at(address);
    if (listener) return transport_of(*std::move(listener), address);
    if (listener.error() != EADDRINUSE || address.port() >= ports.last) {
      return failure(Kind::kFailed, "listen on " + wanted + ": " + describe_errno(listener.error()));
    }
    address.set_port(static_cast<uint16_t>(address.port() + 1));
  }
}

}  // namespace

TransportResult<std::unique_ptr<Transport>> make_tcp_transport(const std::string& interface, const std::string& server_host,
                                                               PortRange ports) {
  auto address = rendezvous::ring_address(interface, server_host);
  if (!address) return failure(Kind::kFailed, address.error());
  address->set_port(ports.first);
  auto transport = listen_at(*address, ports);
  if (!transport && ports.last > 0) transport.error().detail += " (--ring_port says where)";
  return transport;
}

TransportResult<std::unique_ptr<Transport>> make_tcp_transport_at(const std::string& listen_address) {
  const auto address = parse_address(listen_address);
  if (!address) return failure(Kind::kFailed, address.error());
  return listen_at(*address, {address->port(), address->port()});
}

}  // namespace holdfast::worker
