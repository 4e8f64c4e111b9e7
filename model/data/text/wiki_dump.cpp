#include "model/data/text/wiki_dump.h"

#include <expat.h>
#include <fmt/format.h>

#include <deque>
#include <type_traits>
#include <utility>

#include "model/data/text/wikitext.h"

namespace holdfast::model {
namespace {

class WikiDump final : public RecordReader {
 public:
  explicit WikiDump(CheckedText& text) : text_(text), parser_(XML_ParserCreate("UTF-8"), &XML_ParserFree) {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), &WikiDump::on_begin, &WikiDump::on_end);
    XML_SetCharacterDataHandler(parser_.get(), &WikiDump::on_text);
  }

  tl::expected<std::optional<TextPart>, std::string> next() override {
    while (articles_.empty()) {
      if (ended_) return std::nullopt;
      const auto piece = text_.next();
      if (!piece) return tl::unexpected(piece.error());
      ended_ = piece->empty();
      const auto status = XML_Parse(parser_.get(), piece->data(), static_cast<int>(piece->size()), ended_ ? 1 : 0);
      silent_bytes_ = std::exchange(spoke_, false) ? 0 : silent_bytes_ + piece->size();
      if (status != XML_STATUS_OK || silent_bytes_ > kLongestRecord) return refusal();
    }
    article_ = std::move(articles_.front());
    articles_.pop_front();
    return TextPart{article_, true, true};
  }

 private:
  tl::unexpected<std::string> refusal() const {
    const auto why =
        is_stopped_ || silent_bytes_ > kLongestRecord
            ? fmt::format("an article, a comment or an attribute has more than {} bytes, or elements lie more than {} deep",
                          kLongestRecord, kDeepest)
            : std::string(XML_ErrorString(XML_GetErrorCode(parser_.get())));
    return tl::unexpected(fmt::format("{}: line {}: is no dump of Wikipedia from here on: {}. Copy the file again.",
                                      text_.name(), XML_GetCurrentLineNumber(parser_.get()), why));
  }

  static constexpr size_t kDeepest = 64;
  void stop() {
    is_stopped_ = true;
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  static void on_begin(void* of, const char* element, const char**) { static_cast<WikiDump*>(of)->begin(element); }
  static void on_end(void* of, const char* element) { static_cast<WikiDump*>(of)->end(element); }
  static void on_text(void* of, const char* text, int bytes) {
    static_cast<WikiDump*>(of)->add({text, static_cast<size_t>(bytes)});
  }

  void begin(std::string_view element) {
    spoke_ = true;
    if (++depth_ > kDeepest) return stop();
    if (element == "page") title_.clear(), space_.clear(), markup_.clear(), is_redirect_ = false;
    if (element == "redirect") is_redirect_ = true;
    taken_ = element == "title" ? &title_ : element == "ns" ? &space_ : element == "text" ? &markup_ : nullptr;
    if (taken_ != nullptr) taken_->clear();  // of several revisions the last one stays
  }
  void add(std::string_view text) {
    spoke_ = true;
    if (taken_ == nullptr) return;
    if (taken_->size() + text.size() > kLongestRecord) return stop();
    *taken_ += text;
  }
  void end(std::string_view element) {
    spoke_ = true;
    --depth_;
    taken_ = nullptr;
    if (element != "page" || is_redirect_ || (space_ != "0" && !space_.empty())) return;
    std::string text = plain_text_of_wikitext(markup_);
    if (!text.empty()) articles_.push_back(title_ + "\n\n" + text);
  }

  CheckedText& text_;
  std::unique_ptr<std::remove_pointer_t<XML_Parser>, decltype(&XML_ParserFree)> parser_;
  std::string title_, space_, markup_, article_;
  std::string* taken_ = nullptr;  // gathers the element at hand
  bool is_redirect_ = false, is_stopped_ = false, spoke_ = false, ended_ = false;
  size_t depth_ = 0, silent_bytes_ = 0;  // of elements; since the parser called last
  std::deque<std::string> articles_;
};

}  // namespace

std::unique_ptr<RecordReader> read_wiki_dump(CheckedText& text) {
  return std::make_unique<WikiDump>(text);
}

}  // namespace holdfast::model
