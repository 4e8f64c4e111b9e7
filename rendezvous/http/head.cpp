// Boost.Beast parses strictly; the bounds are checked here.
#include "rendezvous/http/head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <limits>

#include "rendezvous/http/request_rules.h"

namespace holdfast::rendezvous {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

// The rules bound path and headers one by one; names, colons, line ends and the method come on top.
constexpr size_t kHeadBytesMax = kTargetBytesMax + kHeaderBytesMax + (8 << 10);

HttpResponse head_refusal(const error_code& error) {
  if (error == http::error::header_limit) {
    return refusal(
        431, "headers_too_large",
        fmt::format("the request's line and headers have more than {} bytes, which is all that is taken", kHeadBytesMax));
  }
  return refusal(400, "bad_request", fmt::format("this is no HTTP/1.1 request: {}", error.message()));
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// A line end in a value would begin another header.
bool is_one_line(const std::string& text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

}  // namespace

HeadParser::HeadParser() {
  parser_.header_limit(kHeadBytesMax);
  parser_.body_limit(std::numeric_limits<uint64_t>::max());  // body_bound() decides
  parser_.eager(false);
}

std::optional<RequestHead> HeadParser::parse(std::string& bytes) {
  error_code error;
  const size_t used = parser_.put(boost::asio::buffer(bytes.data(), std::min(bytes.size(), kHeadBytesMax - taken_)), error);
  bytes.erase(0, used);
  taken_ += used;
  if (error == http::error::need_more || (!error && !parser_.is_header_done())) {
    if (taken_ + bytes.size() < kHeadBytesMax) return std::nullopt;
    error = http::error::header_limit;
  }
  RequestHead head;
  if (error) {
    head.refused = head_refusal(error);
    return head;
  }
  const auto& message = parser_.get();
  head.keep_alive = message.keep_alive();
  head.old_version = message.version() < 11;
  std::map<std::string, std::string> headers;
  size_t fields = 0;  // repeated names are counted each time
  for (const auto& field : message) {
    ++fields;
    headers[lower(std::string_view(field.name_string().data(), field.name_string().size()))] = std::string(field.value());
  }
  if (fields > kHeadersMax) {
    head.refused = too_many_headers(fields);
    return head;
  }
  const std::string target(message.target());
  const size_t question = std::min(target.find('?'), target.size());
  const std::string query = question < target.size() ? target.substr(question + 1) : "";
  auto request = check_request(std::string(message.method_string()), target.substr(0, question), query, std::move(headers));
  if (!request) {
    head.refused = std::move(request.error());
    return head;
  }
  head.request = *std::move(request);
  head.is_head = head.request.method == "HEAD";
  if (head.is_head) head.request.method = "GET";  // the answer's body is dropped on its way out
  if (const auto announced = announced_body(head.request)) {
    head.body_bytes = *announced;
  } else {
    head.refused = announced.error();
  }
  const auto expect = head.request.headers.find("expect");
  head.wants_continue = expect != head.request.headers.end() && lower(expect->second) == "100-continue";
  return head;
}

std::string response_head(const HttpResponse& response, std::optional<size_t> length, bool keep_alive, bool old_version) {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\nX-Content-Type-Options: nosniff\r\n",
                  response.status, std::string_view(reason.data(), reason.size()), fmt::gmtime(std::time(nullptr)));
  if (!response.headers.contains("Cache-Control")) text += "Cache-Control: no-store\r\n";
  for (const auto& [name, value] : response.headers) {
    if (is_one_line(value)) text += fmt::format("{}: {}\r\n", name, value);
  }
  const bool without_body = response.status == 204 || response.status == 304;
  const bool has_a_type = !length || *length > 0 || response.status == 200;  // an object may be empty
  if (!without_body && has_a_type) text += fmt::format("Content-Type: {}\r\n", response.content_type);
  if (length && !without_body) text += fmt::format("Content-Length: {}\r\n", *length);
  if (!length && !old_version) text += "Transfer-Encoding: chunked\r\n";
  text += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return text;
}

}  // namespace holdfast::rendezvous
