// The heads of requests and responses as text. Part of the server, for this folder alone.
#pragma once

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

struct RequestHead {
  HttpRequest request;  // without a body
  bool keep_alive = true, old_version = false, is_head = false, wants_continue = false;
  size_t body_bytes = 0;  // announced
  // The answer to a head that breaks the rules; the connection ends with it.
  std::optional<HttpResponse> refused;
};

// Reads the head of one request as its bytes come.
class HeadParser {
 public:
  HeadParser();
  // Takes the head off the front of `bytes` when it is whole. None: more bytes are needed.
  std::optional<RequestHead> parse(std::string& bytes);

 private:
  // Bytes taken so far. The parser takes whole fields one by one, and its own limit counts the bytes of one call only.
  size_t taken_ = 0;
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
};

// "HTTP/1.1 200 OK\r\n…\r\n\r\n". `length`: of the body; none: the body is sent in chunks, or with old_version until the
// connection ends.
std::string response_head(const HttpResponse& response, std::optional<size_t> length, bool keep_alive, bool old_version);

}  // namespace holdfast::rendezvous
