#include "storage/places/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace holdfast::storage {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr const char* kForm = "s3://bucket/prefix?endpoint=https://host:9000&region=us-east-1";
constexpr const char* kCredentials =
    "credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), from ~/.aws/credentials or from the "
    "machine's role, and are never part of a place";

template <typename... Arguments>
tl::unexpected<std::string> refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return tl::unexpected(fmt::format(text, std::forward<Arguments>(arguments)...));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

std::string decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    plain += escape ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return plain;
}

// Characters that would end the value, or be decoded, when it is read again.
std::string encoded(std::string_view text) {
  std::string safe;
  for (const char c : text) safe += c == '%' ? "%25" : c == '&' ? "%26" : std::string(1, c);
  return safe;
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

bool good_bucket(std::string_view bucket) {
  if (bucket.size() < 3 || bucket.size() > 63 || bucket.front() == '.' || bucket.front() == '-') return false;
  return std::ranges::all_of(bucket, [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_'; }) &&
         bucket.find("..") == std::string_view::npos;
}

bool good_prefix(std::string_view prefix) {
  while (!prefix.empty()) {
    const size_t slash = std::min(prefix.find('/'), prefix.size());
    const std::string_view part = prefix.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    prefix.remove_prefix(std::min(slash + 1, prefix.size()));
  }
  return true;
}

bool good_endpoint(std::string_view endpoint) {
  const size_t scheme = endpoint.starts_with("https://") ? 8 : endpoint.starts_with("http://") ? 7 : 0;
  if (scheme == 0 || endpoint.size() == scheme) return false;
  const std::string_view rest = endpoint.substr(scheme);
  const std::string_view host = rest.substr(0, rest.find('/'));
  const auto in_host = [](unsigned char c) {
    return std::isalnum(c) || std::string_view(".-:[]_").find(c) != std::string_view::npos;
  };
  const auto in_path = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("/.-_~").find(c) != std::string_view::npos;
  };
  const std::string_view path = rest.substr(host.size());
  return !host.empty() && host.front() != ':' && std::ranges::all_of(host, in_host) && std::ranges::all_of(path, in_path) &&
         path.find("/.") == std::string_view::npos;
}

std::optional<std::string> take_setting(S3Place& place, std::string_view name, const std::string& value) {
  if (name == "endpoint") {
    if (value.find('@') != std::string::npos) return fmt::format("its endpoint has a user in it: {}", kCredentials);
    if (!good_endpoint(value)) return "its endpoint is no address: write endpoint=https://host:9000";
    place.endpoint = value.substr(0, value.find_last_not_of('/') + 1);
  } else if (name == "region") {
    const auto fine = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
    if (value.empty() || !std::ranges::all_of(value, fine)) return "its region is no name: write region=eu-central-1, say";
    place.region = value;
  } else if (name == "style") {
    if (value != "path" && value != "host") return "its style is neither path (host/bucket) nor host (bucket.host)";
    place.host_style = value == "host";
  } else {
    // The value is not repeated: it may be a secret.
    return fmt::format("it has a setting that is none of endpoint, region and style; {}", kCredentials);
  }
  return std::nullopt;
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<int64_t> take_at_sign(std::string& text) {
  const size_t at = text.rfind('@');
  if (at == std::string::npos) return std::nullopt;
  const auto step = number(std::string_view(text).substr(at + 1));
  if (step) text.resize(at);
  return step;
}

}  // namespace

bool is_s3(std::string_view place) {
  return place.starts_with(kScheme);
}

tl::expected<S3Place, std::string> parse_s3_place(std::string_view text) {
  if (!is_s3(text)) return refuse("it does not begin with {}: write {}", kScheme, kForm);
  std::string_view rest = text.substr(kScheme.size());
  const size_t question = std::min(rest.find('?'), rest.size());
  std::string_view path = rest.substr(0, question), settings = rest.substr(std::min(question + 1, rest.size()));
  S3Place place;
  const size_t slash = std::min(path.find('/'), path.size());
  const std::string_view bucket = path.substr(0, slash);
  if (bucket.find('@') != std::string_view::npos) return refuse("s3://…@… has a user in it: {}", kCredentials);
  if (has_control(text)) return refuse("s3://{}…: control characters are in it: write {}", bucket, kForm);
  if (!good_bucket(bucket))
    return refuse("s3://{}: \"{}\" is no bucket's name (3 to 63 of a-z 0-9 . -): write {}", path, bucket, kForm);
  place.bucket = bucket;
  place.prefix = path.substr(std::min(slash + 1, path.size()));
  while (place.prefix.ends_with('/')) place.prefix.pop_back();
  if (!good_prefix(place.prefix))
    return refuse("s3://{}: the prefix \"{}\" has an empty part, \".\" or \"..\" in it: write {}", path, place.prefix, kForm);
  while (!settings.empty()) {
    const size_t end = std::min(settings.find('&'), settings.size());
    const std::string_view setting = settings.substr(0, end);
    const size_t equals = std::min(setting.find('='), setting.size());
    const std::string value = decoded(setting.substr(std::min(equals + 1, setting.size())));
    if (const auto wrong = take_setting(place, setting.substr(0, equals), value)) return refuse("s3://{}: {}", path, *wrong);
    settings.remove_prefix(std::min(end + 1, settings.size()));
  }
  return place;
}

std::string to_text(const S3Place& place) {
  std::string text = fmt::format("{}{}", kScheme, place.bucket);
  if (!place.prefix.empty()) text += "/" + place.prefix;
  char before = '?';
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{}{}={}", std::exchange(before, '&'), name, encoded(value));
  };
  add("endpoint", place.endpoint);
  add("region", place.region);
  add("style", place.host_style ? "host" : "");
  return text;
}

std::string place_below(const std::string& place, const std::string& name) {
  if (!is_s3(place)) return fmt::format("{}/{}", place, name);
  const size_t question = std::min(place.find('?'), place.size());
  std::string path = place.substr(0, question);
  while (path.ends_with('/')) path.pop_back();
  return fmt::format("{}/{}{}", path, name, place.substr(question));
}

std::pair<std::string, std::optional<int64_t>> split_step(const std::string& place, bool at_sign) {
  std::string path = place, settings;
  std::optional<int64_t> step;
  if (at_sign) step = take_at_sign(path);
  if (const size_t question = path.find('?'); is_s3(place) && question != std::string::npos) {
    settings = path.substr(question);
    path.resize(question);
    if (at_sign && !step) step = take_at_sign(path);
  }
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const size_t slash = path.rfind('/');
  if (const std::string_view name = std::string_view(path).substr(slash + 1); !step && name.starts_with("step-")) {
    step = number(name.substr(5));
    if (step) path.resize(std::max<size_t>(slash == std::string::npos ? 0 : slash, 1));
  }
  return {path + settings, step};
}

}  // namespace holdfast::storage
