#include "rendezvous/protocol/data_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <optional>

#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {
namespace {

constexpr std::string_view kScheme = "data:";
constexpr size_t kWeightDigitsMax = 4;  // behind the point, and 6 before it: sums of shares stay far below 2^63
constexpr int64_t kWeightUnit = 10'000, kWholeWeightEnd = 1'000'000;

// None: there is something else than digits in it. "" is 0.
std::optional<int64_t> number_of(std::string_view digits) {
  int64_t number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number;
}

// "0.7" is 7000 ten-thousandths. None: no such number.
std::optional<int64_t> weight_of(std::string_view text) {
  const size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  std::string part(point < text.size() ? text.substr(point + 1) : std::string_view());
  if (text.empty() || text == "." || whole.size() > 6 || part.size() > kWeightDigitsMax) return std::nullopt;
  part.resize(kWeightDigitsMax, '0');
  const auto ones = number_of(whole), parts = number_of(part);
  if (!ones || !parts) return std::nullopt;
  return *ones * kWeightUnit + *parts;
}

bool looks_like_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isdigit(c) != 0 || c == '.' || c == '-' || c == '+' || c == 'e';
  });
}

// A data set's: NAME[@DIGEST][/FILE].
tl::expected<DataSource, std::string> parse_set(std::string_view text, std::string_view usual_file) {
  DataSource source;
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view named = text.substr(0, slash);
  source.file = slash < text.size() ? text.substr(slash + 1) : usual_file;
  const size_t at = named.find('@');
  if (at != std::string_view::npos) {
    source.digest = named.substr(at + 1);
    named = named.substr(0, at);
    if (!is_sha256_hex(source.digest)) {
      return tl::unexpected(
          fmt::format("data:{}: \"{}\" is no digest of a data set, which has 64 hex digits: leave it out, and "
                      "the job takes what has the name now",
                      text, source.digest.substr(0, 80)));
    }
  }
  source.set = named;
  if (!is_data_name(named)) {
    return tl::unexpected(
        fmt::format("data:{}: \"{}\" is no name of a data set: 1 to {} letters, digits and ._- ; `holdfast "
                    "data ls` lists them",
                    text, named.substr(0, 80), kDataNameBytesMax));
  }
  if (!is_data_name(source.file)) {
    return tl::unexpected(
        fmt::format("data:{}: \"{}\" is no file of a data set: expected data:NAME/FILE, such as data:{}/train.bin", text,
                    source.file.substr(0, 80), named));
  }
  return source;
}

tl::expected<DataSource, std::string> parse_one(std::string_view text, std::string_view usual_file) {
  if (text.starts_with(kScheme)) return parse_set(text.substr(kScheme.size()), usual_file);
  DataSource source;
  source.path = text;
  return source;
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(',', begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// A part in two: before its last colon, and behind it. None: what is behind looks like no number.
std::optional<std::pair<std::string_view, std::string_view>> weighted(std::string_view part) {
  const size_t colon = part.rfind(':');
  if (colon == std::string_view::npos || !looks_like_number(part.substr(colon + 1))) return std::nullopt;
  return std::pair(part.substr(0, colon), part.substr(colon + 1));
}

// A path may have commas in it: a text is a mixture where one of its parts names a data set or has a weight.
bool is_mixture(const std::vector<std::string_view>& parts) {
  return parts.size() > 1 && std::ranges::any_of(parts, [](std::string_view part) {
           return part.starts_with(kScheme) || weighted(part).has_value();
         });
}

tl::expected<DataSource, std::string> parse_part(std::string_view part) {
  const auto both = weighted(part);
  if (!both) {
    return tl::unexpected(
        fmt::format("\"{}\" has no weight: in a mixture each source has one, such as wiki:0.7,code:0.3", part.substr(0, 200)));
  }
  const auto& [named, number] = *both;
  const auto weight = weight_of(number);
  if (!weight || *weight == 0) {
    return tl::unexpected(
        fmt::format("the weight \"{}\" of {}: expected a number above 0, with at most {} digits behind the "
                    "point and 6 before it",
                    number.substr(0, 80), named.substr(0, 200), kWeightDigitsMax));
  }
  const bool is_word = named.find_first_of("/.") == std::string_view::npos;
  const bool is_set = is_word && !named.starts_with(kScheme);
  auto source = is_set ? parse_set(named, "train.bin") : parse_one(named, "train.bin");
  if (source) source->share = *weight;
  return source;
}

// As weight_of reads it: shares of a mixture may have more digits than it takes before the point.
std::string weight_text(int64_t share, bool in_parts) {
  if (!in_parts) return fmt::format("{}", share);
  return fmt::format("{}.{:04}", share / kWeightUnit, share % kWeightUnit);
}

std::string to_text(const DataSource& source) {
  if (!source.in_set()) return source.path;
  return fmt::format("data:{}{}{}/{}", source.set, source.digest.empty() ? "" : "@", source.digest, source.file);
}

}  // namespace

bool is_data_name(std::string_view name) {
  return !name.empty() && name.size() <= kDataNameBytesMax && name.front() != '.' &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; });
}

tl::expected<std::vector<DataSource>, std::string> parse_training_sources(const std::string& text) {
  const auto parts = parts_of(text);
  std::vector<DataSource> sources;
  if (!is_mixture(parts)) {
    auto source = parse_one(text, "train.bin");
    if (!source) return tl::unexpected(source.error());
    sources.push_back(*std::move(source));
    return sources;
  }
  if (parts.size() > kDataSourcesMax)
    return tl::unexpected(fmt::format("has {} sources, at most {} are taken", parts.size(), kDataSourcesMax));
  int64_t divisor = 0;
  for (const std::string_view part : parts) {
    auto source = parse_part(part);
    if (!source) return tl::unexpected(source.error());
    divisor = std::gcd(divisor, source->share);
    sources.push_back(*std::move(source));
  }
  for (DataSource& source : sources) source.share /= divisor;
  return sources;
}

tl::expected<DataSource, std::string> parse_validation_source(const std::string& text) {
  if (is_mixture(parts_of(text))) {
    return tl::unexpected(
        fmt::format("{}: is a mixture, and a job is evaluated on one file: name one of them", text.substr(0, 200)));
  }
  return parse_one(text, "val.bin");
}

std::string to_text(const std::vector<DataSource>& sources) {
  if (sources.size() == 1) return to_text(sources.front());
  const bool in_parts = std::ranges::any_of(sources, [](const DataSource& source) { return source.share >= kWholeWeightEnd; });
  std::string text;
  for (const DataSource& source : sources)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", to_text(source), weight_text(source.share, in_parts));
  return text;
}

std::string training_folder(const std::string& train_data_path) {
  const auto sources = parse_training_sources(train_data_path);
  if (!sources) return "";
  for (const DataSource& source : *sources) {
    const std::string folder = std::filesystem::path(source.path).parent_path().string();
    if (!source.in_set()) return folder.empty() ? "." : folder;
  }
  return "";
}

}  // namespace holdfast::rendezvous
