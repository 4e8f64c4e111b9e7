// The bounds on a request, one refusal each. Status codes as in RFC 9110 and RFC 6585.
#include "rendezvous/http/request_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "rendezvous/protocol/data_set.h"
#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {
namespace {

constexpr std::array kMethods = {"GET", "POST", "PUT", "DELETE", "HEAD"};

std::optional<HttpResponse> headers_refused(const std::map<std::string, std::string>& headers) {
  size_t bytes = 0;
  for (const auto& [name, value] : headers) bytes += name.size() + value.size();
  if (bytes <= kHeaderBytesMax) return std::nullopt;
  return refusal(431, "headers_too_large",
                 fmt::format("the headers have {} bytes in all; at most {} are taken", bytes, kHeaderBytesMax));
}

std::optional<HttpResponse> method_refused(const std::string& method) {
  if (std::ranges::find(kMethods, method) != kMethods.end()) return std::nullopt;
  HttpResponse response =
      refusal(405, "method_not_allowed",
              fmt::format("{} is no method of this service: GET, POST, PUT, DELETE and HEAD are", method.substr(0, 20)));
  response.headers["Allow"] = "GET, POST, PUT, DELETE, HEAD";
  return response;
}

// False when a part of it is percent-encoded wrongly. "+" is a space, as forms write it.
bool read_query(std::string_view raw, std::map<std::string, std::string>& query) {
  while (!raw.empty()) {
    std::string item(raw.substr(0, raw.find('&')));
    raw.remove_prefix(std::min(raw.size(), item.size() + 1));
    if (item.empty()) continue;
    std::ranges::replace(item, '+', ' ');
    const size_t equals = item.find('=');
    const auto name = percent_decoded(std::string_view(item).substr(0, equals));
    const auto value = percent_decoded(equals == std::string::npos ? "" : std::string_view(item).substr(equals + 1));
    if (!name || !value) return false;
    query[*name] = *value;
  }
  return true;
}

}  // namespace

HttpResponse refusal(int status, const std::string& code, const std::string& detail) {
  Problem problem;
  problem.status = status;
  problem.code = code;
  problem.detail = detail;
  problem.title = code;
  std::ranges::replace(problem.title, '_', ' ');
  HttpResponse response;
  response.status = status;
  response.body = json_text(nlohmann::json(problem));
  response.content_type = kProblemType;
  return response;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      unsigned value = 0;
      if (i + 2 >= text.size()) return std::nullopt;
      const auto result = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
      if (result.ptr != text.data() + i + 3) return std::nullopt;
      c = static_cast<char>(value);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    decoded += c;
  }
  return decoded;
}

tl::expected<HttpRequest, HttpResponse> check_request(const std::string& method, const std::string& raw_path,
                                                      const std::string& raw_query,
                                                      std::map<std::string, std::string> headers) {
  if (raw_path.size() + raw_query.size() > kTargetBytesMax) {
    return tl::unexpected(refusal(414, "uri_too_long",
                                  fmt::format("the path and query have {} bytes, at most {} are taken",
                                              raw_path.size() + raw_query.size(), kTargetBytesMax)));
  }
  if (auto refused = headers_refused(headers)) return tl::unexpected(*refused);
  if (auto refused = method_refused(method)) return tl::unexpected(*refused);
  HttpRequest request;
  const auto is_plain = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!std::ranges::all_of(raw_path, is_plain) || !std::ranges::all_of(raw_query, is_plain)) {
    return tl::unexpected(
        refusal(400, "bad_request", "the path or query has bytes that are no printable ASCII: percent-encode them"));
  }
  const auto path = percent_decoded(raw_path);
  if (!path || !read_query(raw_query, request.query)) {
    return tl::unexpected(refusal(400, "bad_request", "the path or query is not percent-encoded rightly: write % as %25"));
  }
  request.method = method;
  request.path = *path;
  request.headers = std::move(headers);
  return request;
}

tl::expected<size_t, HttpResponse> announced_body(const HttpRequest& request) {
  if (request.headers.contains("transfer-encoding")) {
    return tl::unexpected(refusal(411, "length_required", "send the body with a Content-Length, not in chunks"));
  }
  const auto header = request.headers.find("content-length");
  if (header == request.headers.end()) return 0;
  size_t length = 0;
  const std::string& text = header->second;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), length);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return tl::unexpected(refusal(400, "bad_request", "Content-Length is not a number"));
  }
  return length;
}

size_t body_bound(const HttpRequest& request, const HttpServerOptions& options) {
  if (request.method != "POST" && request.method != "PUT") return 0;  // no route uses a body of other methods
  if (request.method == "PUT" && request.path.starts_with("/v1/data/chunks/")) return kChunkBytes;
  if (request.method == "PUT" && request.path.starts_with("/v1/data/sets/")) return kManifestBytesMax;
  const bool object =
      request.method == "PUT" && request.path.starts_with("/v1/jobs/") && request.path.find("/objects/") != std::string::npos;
  return object ? options.max_object_bytes : options.max_body_bytes;
}

HttpResponse too_many_headers(size_t count) {
  return refusal(431, "headers_too_large", fmt::format("there are {} headers; at most {} are taken", count, kHeadersMax));
}

HttpResponse too_large(size_t announced, size_t bound) {
  return refusal(413, "body_too_large", fmt::format("the body has {} bytes, at most {} are taken here", announced, bound));
}

}  // namespace holdfast::rendezvous
