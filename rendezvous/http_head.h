// The heads of requests and responses as text. Part of the server, for http_*.cpp alone.
#pragma once

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/http_server.h"

namespace holdfast::rendezvous {

struct RequestHead {
  HttpRequest request;  // without a body
  bool keep_alive = true, old_version = false, is_head = false, wants_continue = false;
  size_t body_bytes = 0;  // announced
  // The answer that ends it here, and the connection with it.
  std::optional<HttpResponse> refused;
};

// Reads one request's head, as its bytes come.
class HeadParser {
 public:
  HeadParser();
  // Takes the head off the front of `bytes` when it is whole; nothing: more is needed.
  std::optional<RequestHead> parse(std::string& bytes);

 private:
  // Fields that are whole are taken out of `bytes` one by one, and the parser's own limit is for what one call brings.
  size_t taken_ = 0;
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
};

// "HTTP/1.1 200 OK\r\n…\r\n\r\n". `length`: of the body; nothing: it is sent in chunks (or to the connection's end, with
// old_version).
std::string response_head(const HttpResponse& response, std::optional<size_t> length, bool keep_alive, bool old_version);

}  // namespace holdfast::rendezvous
