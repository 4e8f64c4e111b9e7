#include "model/data/text/json_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace holdfast::model {
namespace {

using nlohmann::json;

class JsonLines final : public RecordReader {
 public:
  JsonLines(CheckedText& text, std::string field) : text_(text), field_(std::move(field)) {}

  tl::expected<std::optional<TextPart>, std::string> next() override {
    for (;;) {
      const auto line = next_line();
      if (!line) return tl::unexpected(line.error());
      if (!*line) return std::nullopt;
      if ((*line)->find_first_not_of(" \t\r") == std::string_view::npos) continue;
      if (auto taken = take_text(**line); !taken) return tl::unexpected(taken.error());
      if (!record_.empty()) return TextPart{record_, true, true};
    }
  }

 private:
  // Without its end; nothing at the end of the file.
  tl::expected<std::optional<std::string_view>, std::string> next_line() {
    line_.clear();
    ++number_;
    for (;;) {
      const size_t end = piece_.find('\n');
      line_ += piece_.substr(0, end);
      piece_.remove_prefix(std::min(end == std::string_view::npos ? end : end + 1, piece_.size()));
      if (end != std::string_view::npos) return line_;
      if (line_.size() > kLongestRecord) {
        return tl::unexpected(fmt::format("{}: line {} has more than {} bytes, expected at most so many.", text_.name(),
                                          number_, kLongestRecord));
      }
      const auto more = text_.next();
      if (!more) return tl::unexpected(more.error());
      if (more->empty() && line_.empty()) return std::nullopt;
      if (more->empty()) return line_;
      piece_ = *more;
    }
  }

  tl::expected<void, std::string> take_text(std::string_view line) {
    const auto refused = [&](const std::string& why) {
      return tl::unexpected(fmt::format("{}: line {} {}", text_.name(), number_, why));
    };
    constexpr int kDeepest = 8;  // deeper values are dropped: brackets alone would take 70 bytes for one
    const auto keep = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
    json object = json::parse(line, keep, false);
    if (!object.is_object()) return refused("is no JSON object, expected one on each line.");
    const auto found = object.find(field_);
    if (found == object.end()) {
      std::string names;
      for (const auto& [name, value] : object.items()) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
      return refused(fmt::format("has no \"{}\"; it has {}. Name the field of the text with --field.", field_,
                                 names.empty() ? "nothing" : names.substr(0, 300)));
    }
    if (!found->is_string()) return refused(fmt::format("has no text at \"{}\" but {}.", field_, found->type_name()));
    record_ = std::move(found->get_ref<std::string&>());
    return {};
  }

  CheckedText& text_;
  std::string field_, line_, record_;
  std::string_view piece_;
  int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<RecordReader> read_json_lines(CheckedText& text, const std::string& field) {
  return std::make_unique<JsonLines>(text, field);
}

}  // namespace holdfast::model
