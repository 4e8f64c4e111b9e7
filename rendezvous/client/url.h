// Parses URLs of http and https as libcurl does when it sends a request.
#pragma once

#include <optional>
#include <string>

namespace holdfast::rendezvous {

struct Url {
  std::string origin;  // "https://host:8443": scheme, host and, where one is given, port
  std::string host;    // "10.0.0.1", "trainer.lab", "fd00::1" (without brackets)
  std::string target;  // "/a/b?c": path and query; "/" where there is none. A fragment is left out.
};

// Nothing if libcurl would not send a request to `text`, or if its scheme is another.
std::optional<Url> parse_url(const std::string& text);

// "http://10.0.0.1:7070" -> "10.0.0.1", "https://[fd00::1]/" -> "fd00::1"; "" if it is not such a URL.
std::string host_of_url(const std::string& url);

// Whether a host is this machine, judged by its name alone: localhost, 127.…, ::1. Nothing is resolved.
bool is_loopback_host(const std::string& host);

}  // namespace holdfast::rendezvous
