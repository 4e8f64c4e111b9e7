// From "127.0.0.1:7070" to an address that can be listened on, or a sentence that says why not and what to do.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace holdfast::rendezvous {

struct ListenAddress {
  std::string host;  // numeric, as a URL has it: IPv6 in brackets
  int port = 0;
};

// Tries the address with a socket that is closed again: the HTTP library can neither say which port it got nor tell
// errors apart. Port 0 picks a free one.
tl::expected<ListenAddress, std::string> find_listen_address(const std::string& listen);

}  // namespace holdfast::rendezvous
