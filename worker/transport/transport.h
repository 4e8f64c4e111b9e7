// The transport seam: byte streams between workers.
//
// Non-blocking underneath: a caller asks how far a stream can go now, and waits for several at once with one absolute
// deadline. Errors are values. Thread: all of it belongs to one thread, but wake(), wait_for_lost_peer(), refusing(), address()
// and node(). A transport outlives the rings that are formed over it: its listener is there from the process's start to its
// end, so that a neighbour who learns of a generation first finds somebody to connect to.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::worker {

using Deadline = std::chrono::steady_clock::time_point;

struct TransportError {
  // kRefused: the node answers, and nobody listens at that address.
  enum class Kind { kClosed, kTimeout, kWoken, kRefused, kFailed };
  Kind kind;
  std::string detail;  // "connect to 10.0.0.3:41234: Connection refused"
};
template <typename T>
using TransportResult = tl::expected<T, TransportError>;

// Known to both ends of one stream and to nobody else.
using StreamKey = std::array<std::byte, 32>;

class Connection {
 public:
  virtual ~Connection() = default;  // closes
  // Bytes taken or given now, 0 when it would block. A closed or broken stream is an error: kClosed when the other side
  // ended it (closed or reset), kFailed otherwise. With `more`, the caller sends again at once, and the stream may hold a
  // short packet back until then. Bytes that were not taken are what the next call begins with, all of those that were
  // offered: an encrypted stream may have sealed them already.
  virtual TransportResult<size_t> send_some(std::span<const std::byte> bytes, bool more) = 0;
  virtual TransportResult<size_t> receive_some(std::span<std::byte> bytes) = 0;
  // Goes over to encrypted bytes (tls_stream.h), which both ends do at the same place in the stream; one of them `begins`.
  // True once both are through; until then it is called again after wait(), with to_receive, and nothing else is called. An
  // end that lacks the key is an error.
  virtual TransportResult<bool> encrypt(const StreamKey& key, bool begins) = 0;
  virtual std::string encryption() const = 0;  // in words, "TLS 1.3 with …"; "": none
  // The stream may break by itself when the other side takes nothing for so long, and not sooner.
  virtual void set_stall_limit(std::chrono::milliseconds limit) = 0;
  virtual bool within_node() const = 0;  // both ends are on one node: its bytes meet no network
  virtual std::string peer() const = 0;  // address, for messages
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string address() const = 0;  // where others reach this worker, "host:port"
  // The machine, and its address there: workers that say the same may share memory. "": this one is to share none.
  virtual std::string node() const = 0;
  // Begins to connect and returns at once: until it is through, send_some and receive_some move 0 bytes; that it failed is
  // their error. So a ring can be formed in both directions by one thread.
  virtual TransportResult<std::unique_ptr<Connection>> connect(const std::string& address) = 0;
  // nullptr when none is waiting now.
  virtual TransportResult<std::unique_ptr<Connection>> accept_now() = 0;

  struct Interest {
    Connection* connection;
    bool to_send, to_receive;
  };
  // Returns when one of `interests` may go on, or (with `accept`) somebody connects. kTimeout at the deadline, kWoken
  // after wake().
  virtual TransportResult<void> wait(std::span<const Interest> interests, bool accept, Deadline deadline) = 0;
  // Blocks until the other side of one of `connections` has ended or broken it, and returns its index, whatever is still to
  // be read; or until `stop` is requested: nullopt. Any thread, while the transport's own does not use them.
  virtual std::optional<size_t> wait_for_lost_peer(std::span<Connection* const> connections, std::stop_token stop) = 0;
  // The same for one that has ended it already: returns at once.
  virtual std::optional<size_t> lost_peer(std::span<Connection* const> connections) = 0;
  // The indices of those `addresses` that refuse connections: no process listens there any more. An address of which it cannot
  // be told within `limit` is not among them. Any thread.
  virtual std::vector<size_t> refusing(std::span<const std::string> addresses, std::chrono::milliseconds limit) const = 0;
  // Makes the present or the next wait return kWoken; any thread.
  virtual void wake() = 0;
};

// The ports to listen on: the first that is free. From 0 to 0: one that the system picks.
struct PortRange {
  uint16_t first = 0, last = 0;
};

// Listens on `interface` ("" picks the address that routes to `server_host`), at the first of `ports` that is free.
TransportResult<std::unique_ptr<Transport>> make_tcp_transport(const std::string& interface, const std::string& server_host,
                                                               PortRange ports = {});
// Listens on this numeric "host:port" ("[v6]:port"); port 0 takes a free one.
TransportResult<std::unique_ptr<Transport>> make_tcp_transport_at(const std::string& listen_address);

}  // namespace holdfast::worker
