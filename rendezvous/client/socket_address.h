// Socket addresses as text and back, and the choice of the address at which a worker's ring listens.
//
// Text is numeric only ("10.0.0.3:41234", "[fd00::3]:41234"), because addresses travel from worker to worker, and two nodes
// may resolve a name differently, or slowly.
// Thread: any.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::rendezvous {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  void set_port(uint16_t port);
  std::string text() const;  // with the port
  bool operator==(const SocketAddress& other) const;
};

// The error is a sentence for people.
template <typename T>
using AddressResult = tl::expected<T, std::string>;

// This machine's host name; `otherwise` where it cannot be read.
std::string host_name(const std::string& otherwise);

AddressResult<SocketAddress> parse_address(const std::string& text);
// The interface's IPv4 address, or else its first IPv6 address that is not link-local. An unknown name is an error that
// lists the interfaces there are. Port 0.
AddressResult<SocketAddress> address_of_interface(const std::string& interface);
// The local address that packets to `host` (a name or number) leave from; nothing is sent. Port 0.
AddressResult<SocketAddress> address_routing_to(const std::string& host);

bool is_loopback(const SocketAddress& address);
// Whether packets to `host` (a name or number) stay on this machine.
bool is_this_machine(const std::string& host);

// The address at which a worker listens: the interface's when one is named, else the address from which packets to the
// service leave. Port 0.
AddressResult<SocketAddress> ring_address(const std::string& interface, const std::string& service_host);
// HOLDFAST_INTERFACE, else the interface that NCCL_SOCKET_IFNAME chooses here; "" when neither is set. A pattern that chooses
// none is returned as it is, so that the error of its use names it.
std::string interface_of_environment(const std::string& service_host);
// NCCL's rule: "eth,ib" are beginnings of names, "=eth0" is a whole name, and "^docker" or "^=docker0" are those not to take.
// Of several, the one that is written out wins, then `routed` (which leads to the service), then the first that is not "lo". ""
// when there is none.
std::string interface_by_nccls_rule(std::string_view pattern, const std::vector<std::string>& names, const std::string& routed);
// The interface that has this address, whatever the port; "" when no interface has it.
std::string interface_with(const SocketAddress& address);

}  // namespace holdfast::rendezvous
