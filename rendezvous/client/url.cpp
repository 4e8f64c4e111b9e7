#include "rendezvous/client/url.h"

#include <curl/curl.h>

#include <memory>

namespace holdfast::rendezvous {
namespace {

using ParsedUrl = std::unique_ptr<CURLU, void (*)(CURLU*)>;

// "" if the URL does not have the part.
std::string part_of(const ParsedUrl& url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, 0) != CURLUE_OK) return "";
  const std::unique_ptr<char, void (*)(void*)> owner(text, &curl_free);
  return text;
}

}  // namespace

std::optional<Url> parse_url(const std::string& text) {
  const ParsedUrl parsed(curl_url(), &curl_url_cleanup);
  if (curl_url_set(parsed.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const std::string scheme = part_of(parsed, CURLUPART_SCHEME), port = part_of(parsed, CURLUPART_PORT);
  const std::string host = part_of(parsed, CURLUPART_HOST), query = part_of(parsed, CURLUPART_QUERY);
  if ((scheme != "http" && scheme != "https") || host.empty()) return std::nullopt;
  Url url;
  url.origin = scheme + "://" + host + (port.empty() ? "" : ":" + port);
  url.host = host.front() == '[' ? host.substr(1, host.size() - 2) : host;
  url.target = part_of(parsed, CURLUPART_PATH) + (query.empty() ? "" : "?" + query);
  return url;
}

std::string host_of_url(const std::string& url) {
  const auto parsed = parse_url(url);
  return parsed ? parsed->host : "";
}

bool is_loopback_host(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

}  // namespace holdfast::rendezvous
