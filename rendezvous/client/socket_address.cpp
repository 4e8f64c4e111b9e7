// Reads only numeric addresses, and sends no packet to choose an address.
#include "rendezvous/client/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ranges>
#include <set>
#include <system_error>

#include "rendezvous/text/errno_text.h"

namespace holdfast::rendezvous {
namespace {

SocketAddress from_sockaddr(const sockaddr* address) {
  SocketAddress result;
  result.length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&result.storage, address, result.length);
  return result;
}

bool is_link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

struct InterfaceList {
  ifaddrs* first = nullptr;
  InterfaceList() {
    if (getifaddrs(&first) != 0) first = nullptr;
  }
  ~InterfaceList() {
    if (first) freeifaddrs(first);
  }
  InterfaceList(const InterfaceList&) = delete;
  InterfaceList& operator=(const InterfaceList&) = delete;

  std::string names() const {
    std::set<std::string> unique;
    for (const ifaddrs* i = first; i; i = i->ifa_next) unique.insert(i->ifa_name);
    std::string joined;
    for (const auto& name : unique) joined += (joined.empty() ? "" : ", ") + name;
    return joined;
  }

  // Each once, in the system's order, if it has an address that others reach.
  std::vector<std::string> names_with_address() const {
    std::vector<std::string> found;
    for (const ifaddrs* i = first; i; i = i->ifa_next) {
      if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) continue;
      if (!is_link_local(i->ifa_addr) && std::ranges::find(found, std::string(i->ifa_name)) == found.end())
        found.emplace_back(i->ifa_name);
    }
    return found;
  }
};

}  // namespace

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                   : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
}

void SocketAddress::set_port(uint16_t port) {
  if (family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  }
}

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(port());
  }
  inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, host, sizeof host);
  return std::string("[").append(host).append("]:").append(std::to_string(port()));
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  return length == other.length && std::memcmp(&storage, &other.storage, length) == 0;
}

std::string host_name(const std::string& otherwise) {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : otherwise;
}

AddressResult<SocketAddress> parse_address(const std::string& text) {
  auto refuse = [&](const std::string& why) {
    return tl::make_unexpected("address \"" + text + "\": " + why + "; expected a numeric \"host:port\" or \"[v6]:port\"");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return refuse("no port");
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (error != std::errc{} || stop != end) return refuse("the port is not a number from 0 to 65535");

  std::string host = text.substr(0, colon);
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) != 1) return refuse("not an IPv6 address");
    v6->sin6_family = AF_INET6;
    result.length = sizeof *v6;
  } else {
    if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) != 1) return refuse("not an IPv4 address");
    v4->sin_family = AF_INET;
    result.length = sizeof *v4;
  }
  result.set_port(port);
  return result;
}

AddressResult<SocketAddress> address_of_interface(const std::string& interface) {
  const InterfaceList list;
  const sockaddr* best = nullptr;
  bool known = false;
  for (const ifaddrs* i = list.first; i; i = i->ifa_next) {
    if (interface != i->ifa_name) continue;
    known = true;
    if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) continue;
    if (is_link_local(i->ifa_addr)) continue;
    if (!best || (best->sa_family == AF_INET6 && i->ifa_addr->sa_family == AF_INET)) best = i->ifa_addr;
  }
  if (!known) {
    return tl::make_unexpected("there is no network interface \"" + interface + "\"; this node has: " + list.names());
  }
  if (!best) {
    return tl::make_unexpected("network interface \"" + interface +
                               "\" has no IPv4 or global IPv6 address; give it one, or name another: " + list.names());
  }
  SocketAddress result = from_sockaddr(best);
  result.set_port(0);
  return result;
}

namespace {

struct Route {
  SocketAddress from, to;
};

// The two ends of the route that packets to `host` take; nothing is sent.
AddressResult<Route> route_to(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), "9", &hints, &found); error != 0) {
    return tl::make_unexpected("cannot resolve \"" + host +
                               "\", to pick the address that routes to it: " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::string why = "no usable address";
  for (const addrinfo* a = found; a; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    const int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    Route route;
    route.from.length = sizeof route.from.storage;
    route.to = from_sockaddr(a->ai_addr);
    // Connecting a datagram socket only looks up the route.
    const bool ok = ::connect(fd, a->ai_addr, a->ai_addrlen) == 0 && getsockname(fd, route.from.get(), &route.from.length) == 0;
    if (!ok) why = describe_errno(errno);
    close(fd);
    if (ok) {
      route.from.set_port(0);
      route.to.set_port(0);
      return route;
    }
  }
  return tl::make_unexpected("no route to \"" + host + "\" (" + why + "); name a network interface instead");
}

}  // namespace

AddressResult<SocketAddress> address_routing_to(const std::string& host) {
  const auto route = route_to(host);
  if (!route) return tl::make_unexpected(route.error());
  return route->from;
}

bool is_loopback(const SocketAddress& address) {
  if (address.family() == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
  return ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool is_this_machine(const std::string& host) {
  const auto route = route_to(host);
  return route && (is_loopback(route->to) || route->from.text() == route->to.text());
}

AddressResult<SocketAddress> ring_address(const std::string& interface, const std::string& service_host) {
  return interface.empty() ? address_routing_to(service_host) : address_of_interface(interface);
}

std::string interface_by_nccls_rule(std::string_view pattern, const std::vector<std::string>& names,
                                    const std::string& routed) {
  const bool inverted = pattern.starts_with('^');
  if (inverted) pattern.remove_prefix(1);
  const bool whole = pattern.starts_with('=');
  if (whole) pattern.remove_prefix(1);
  std::vector<std::string> wanted;
  for (const auto& word : std::views::split(pattern, ',')) {
    if (!word.empty()) wanted.emplace_back(word.begin(), word.end());
  }

  std::string best;
  int best_rank = 0;  // 0: none yet
  for (const std::string& name : names) {
    const bool named = std::ranges::find(wanted, name) != wanted.end();
    const bool begins = std::ranges::any_of(wanted, [&](const std::string& word) { return name.starts_with(word); });
    if ((whole ? named : begins) == inverted) continue;
    const int rank = named ? 4 : name == routed ? 3 : name != "lo" ? 2 : 1;
    if (rank > best_rank) best = name;
    best_rank = std::max(rank, best_rank);
  }
  return best;
}

std::string interface_of_environment(const std::string& service_host) {
  const auto value_of = [](const char* name) -> std::string {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before there are threads
    return value == nullptr ? "" : value;
  };
  if (std::string own = value_of("HOLDFAST_INTERFACE"); !own.empty()) return own;
  std::string nccl = value_of("NCCL_SOCKET_IFNAME");
  if (nccl.empty()) return "";
  const auto route = address_routing_to(service_host);
  std::string found = interface_by_nccls_rule(nccl, InterfaceList().names_with_address(), route ? interface_with(*route) : "");
  return found.empty() ? nccl : found;
}

std::string interface_with(const SocketAddress& address) {
  SocketAddress wanted = address;
  wanted.set_port(0);
  const InterfaceList list;
  for (const ifaddrs* i = list.first; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != address.family()) continue;
    SocketAddress own = from_sockaddr(i->ifa_addr);
    own.set_port(0);
    if (own.text() == wanted.text()) return i->ifa_name;
  }
  return "";
}

}  // namespace holdfast::rendezvous
