#include "worker/peer_server/peer_server.h"

#include <fmt/format.h>

#include <utility>

#include "worker/peer_server/own_certificate.h"

namespace holdfast::worker {

tl::expected<PeerServer, std::string> start_peer_server(const std::string& host, PortRange ports,
                                                        rendezvous::HttpServerOptions options, const StartServer& start) {
  const OwnCertificate own = make_own_certificate();
  options.tls = {own.certificate, own.key, true};
  std::string why = "no port is given";
  for (int port = ports.first; port <= ports.last; ++port) {
    options.listen = fmt::format("{}:{}", host, port);
    auto started = start(options);
    if (!started) {
      why = started.error();
      continue;
    }
    const int its_port = (*started)->port();
    return PeerServer{.server = *std::move(started), .address = fmt::format("{}:{}", host, its_port), .pin = own.pin};
  }
  return tl::unexpected(why);
}

std::string host_of(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

}  // namespace holdfast::worker
