// From "127.0.0.1:7070" to a socket that listens there, or a sentence that says why not and what to do.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace holdfast::rendezvous {

struct ListeningSocket {
  int file = -1;  // the caller owns it
  bool ipv6 = false;
  int port = 0;
};

// Whether only programs on this machine can reach the address.
tl::expected<bool, std::string> listens_on_loopback(const std::string& listen);

// Port 0 picks a free one.
tl::expected<ListeningSocket, std::string> listen_on(const std::string& listen);

}  // namespace holdfast::rendezvous
