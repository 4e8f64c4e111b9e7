// The bounds that a request must keep before it reaches a handler. Pure functions, so that every bound is tested without a
// socket.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

constexpr size_t kTargetBytesMax = 8 << 10;  // path and query as sent
constexpr size_t kHeadersMax = 64;
constexpr size_t kHeaderBytesMax = 16 << 10;
// A body that passes its bound by no more than this is still read to its end, so that the client sees the 413 and not a reset
// connection.
constexpr size_t kPoliteBytes = 4 << 20;

// The answer that refuses a request, as problem details.
HttpResponse refusal(int status, const std::string& code, const std::string& detail);

// "%41b" -> "Ab". None when two hex digits do not follow a percent sign, or the result has a control character.
std::optional<std::string> percent_decoded(std::string_view text);

// The request without its body, or the answer that refuses it. `headers` has lower-case names.
tl::expected<HttpRequest, HttpResponse> check_request(const std::string& method, const std::string& raw_path,
                                                      const std::string& raw_query, std::map<std::string, std::string> headers);

// The length of the body that `request` announces, or the answer that refuses to read it. The bound is not checked here.
tl::expected<size_t, HttpResponse> announced_body(const HttpRequest& request);
size_t body_bound(const HttpRequest& request, const HttpServerOptions& options);
HttpResponse too_many_headers(size_t count);
HttpResponse too_large(size_t announced, size_t bound);

}  // namespace holdfast::rendezvous
