// Socket addresses as text and back, and the choice of the one to listen on.
//
// Text is numeric only ("10.0.0.3:41234", "[fd00::3]:41234"): addresses travel from worker to worker, and a name that two
// nodes resolve differently, or slowly, has no place there.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::worker {

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

// The system's words for an errno.
std::string describe_errno(int error);

AddressResult<SocketAddress> parse_address(const std::string& text);
// The interface's IPv4 address, or else its first IPv6 address that is not link-local. An unknown name is an error that
// lists the interfaces there are. Port 0.
AddressResult<SocketAddress> address_of_interface(const std::string& interface);
// The local address that packets to `host` (a name or number) leave from; nothing is sent. Port 0.
AddressResult<SocketAddress> address_routing_to(const std::string& host);

}  // namespace holdfast::worker
