// What a request must look like before anybody works on it: pure, so that every bound can be tested without a socket.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "rendezvous/http_server.h"

namespace holdfast::rendezvous {

constexpr size_t kTargetBytesMax = 8 << 10;  // path and query as sent
constexpr size_t kHeadersMax = 64;
constexpr size_t kHeaderBytesMax = 16 << 10;
// A body that is over its bound by no more than this is read to its end, so that the client surely sees the 413 and not
// a connection that was cut under its hands.
constexpr size_t kPoliteBytes = 4 << 20;

// The answer that refuses a request, as problem details.
HttpResponse refusal(int status, const std::string& code, const std::string& detail);

// "%41b" -> "Ab". Nothing when a percent sign is not followed by two hex digits, or a control character comes out.
std::optional<std::string> percent_decoded(std::string_view text);

// Method, path, query and headers. `headers` has lower-case names. What comes back has no body yet.
tl::expected<HttpRequest, HttpResponse> check_request(const std::string& method, const std::string& raw_path,
                                                      const std::string& raw_query, std::map<std::string, std::string> headers);

// Bytes of body that `request` says will follow, or why they will not be read. Over the bound is no refusal here.
tl::expected<size_t, HttpResponse> announced_body(const HttpRequest& request);
size_t body_bound(const HttpRequest& request, const HttpServerOptions& options);
HttpResponse too_many_headers(size_t count);
HttpResponse too_large(size_t announced, size_t bound);

}  // namespace holdfast::rendezvous
