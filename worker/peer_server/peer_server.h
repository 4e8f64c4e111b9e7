// An HTTPS server of this process for other workers. Nobody signs its certificate: the service tells them its key.
//
// Thread: any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/http/server.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

struct PeerServer {
  std::unique_ptr<rendezvous::HttpServer> server;
  std::string address;  // "10.0.0.2:7101"
  std::string pin;      // the certificate's key, as HttpClient::trust_only has it
};

// As HttpServer::start is begun, with a gate or a handler.
using StartServer =
    std::function<tl::expected<std::unique_ptr<rendezvous::HttpServer>, std::string>(const rendezvous::HttpServerOptions&)>;

// Listens at `host` ("10.0.0.2", "[fe80::1]"), at the first free one of `ports`. `options`: without an address and a
// certificate. The error is a sentence.
tl::expected<PeerServer, std::string> start_peer_server(const std::string& host, PortRange ports,
                                                        rendezvous::HttpServerOptions options, const StartServer& start);

// The host of "10.0.0.2:7101" or "[fe80::1]:7101", as start_peer_server takes it.
std::string host_of(const std::string& address);

}  // namespace holdfast::worker
