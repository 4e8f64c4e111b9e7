#include "model/data/prepare/survey.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "model/data/prepare/progress.h"
#include "model/data/text/documents.h"

namespace holdfast::model {
namespace {

// Training documents for the tokenizer: all of them, or, when they pass the limit, those whose hash falls below a share
// that is halved as often as needed: spread evenly over the text, and the same whatever order they come in.
class TrainingSample {
 public:
  void add(std::string_view document, uint64_t seed) {
    const double place = document_place(document, ~seed);
    if (place >= share_) return;
    kept_.emplace_back(place, document);
    bytes_ += static_cast<int64_t>(document.size());
    for (; bytes_ > kTokenizerTrainingBytes; share_ /= 2) drop_from(share_ / 2);
  }
  void drop(std::string_view document) {
    bytes_ -= static_cast<int64_t>(document.size()) *
              static_cast<int64_t>(std::erase_if(kept_, [document](const auto& one) { return one.second == document; }));
  }
  int64_t bytes() const { return bytes_; }
  std::vector<std::string> take() {
    std::vector<std::string> documents;
    for (auto& [place, document] : kept_) documents.push_back(std::move(document));
    return documents;
  }

 private:
  void drop_from(double share) {
    std::erase_if(kept_, [share](const auto& one) { return one.first >= share; });
    bytes_ = 0;
    for (const auto& [place, document] : kept_) bytes_ += static_cast<int64_t>(document.size());
  }
  std::vector<std::pair<double, std::string>> kept_;
  double share_ = 1;
  int64_t bytes_ = 0;
};

// The texts that were seen, by 128-bit hashes: of two that differ one is taken for the other once in 10^38 times.
class SeenTexts {
 public:
  bool add(std::string_view text) {  // false: it was there
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return seen_.insert({hash.low64, hash.high64}).second;
  }

 private:
  using Hash = std::pair<uint64_t, uint64_t>;
  struct Low {
    size_t operator()(const Hash& hash) const { return hash.first; }
  };
  std::unordered_set<Hash, Low> seen_;
};

class Surveyor {
 public:
  explicit Surveyor(const PrepareOptions& options) : options_(options) {}

  void add(std::string_view document) {
    const double place = document_place(document, options_.seed);
    survey_.documents += 1;
    if (place < options_.validation_fraction) {
      below_fraction_ += 1;
    } else if (options_.tokenizer == "bpe") {
      sample_.add(document, options_.seed);
    }
    if (place < survey_.lowest_place) survey_.lowest_place = place, lowest_document_ = document, at_lowest_ = 0;
    if (place <= survey_.lowest_place) at_lowest_ += 1;
  }

  tl::expected<Survey, std::string> finish(const DocumentReader& reader) {
    survey_.bytes = reader.text_bytes();
    survey_.texts = reader.records();
    const bool lowest_is_held_out = options_.validation_fraction > 0 && below_fraction_ == 0;
    if (lowest_is_held_out) sample_.drop(lowest_document_);
    const int64_t held_out = lowest_is_held_out ? at_lowest_ : below_fraction_;
    const int64_t needed = options_.validation_fraction > 0 ? 2 : 1;
    if (survey_.documents < needed) {
      return tl::unexpected(
          fmt::format("the input is too small: {} bytes of text in {} documents, expected at least {} documents (a file, or "
                      "about {} bytes of "
                      "a longer one). Give more text, or set validation_fraction to 0.",
                      survey_.bytes, survey_.documents, needed, kDocumentBytes));
    }
    if (held_out == survey_.documents) {
      return tl::unexpected(fmt::format(
          "all {} documents fell to validation (equal texts fall together). Give more text, or a smaller validation_fraction.",
          survey_.documents));
    }
    survey_.sample_bytes = sample_.bytes();
    survey_.sample = sample_.take();
    return std::move(survey_);
  }

  bool keep(int64_t record, std::string_view text) {
    if (seen_.add(text)) return true;
    survey_.duplicates.resize(static_cast<size_t>(record) + 1);
    survey_.duplicates.back() = true;
    return false;
  }

 private:
  const PrepareOptions& options_;
  Survey survey_;
  int64_t below_fraction_ = 0, at_lowest_ = 0;  // documents
  std::string lowest_document_;
  TrainingSample sample_;
  SeenTexts seen_;
};

}  // namespace

int64_t Survey::duplicate_texts() const {
  return std::ranges::count(duplicates, true);
}

bool Survey::is_duplicate(int64_t record) const {
  return static_cast<size_t>(record) < duplicates.size() && duplicates[static_cast<size_t>(record)];
}

RecordOptions record_options(const PrepareOptions& options) {
  return {.field = options.field, .whole = options.dedup};
}

tl::expected<Survey, std::string> survey_text(const PrepareOptions& options, const std::vector<std::string>& files) {
  Surveyor surveyor(options);
  DocumentReader::Keep keep;
  if (options.dedup) keep = [&](int64_t record, std::string_view text) { return surveyor.keep(record, text); };
  DocumentReader reader(files, record_options(options), keep);
  ProgressTeller teller(options, files, 1);
  Document document;
  for (;;) {
    const auto found = reader.next(document);
    if (!found) return tl::unexpected(found.error());
    if (!*found) return surveyor.finish(reader);
    surveyor.add(document.text);
    teller.tell({.bytes = reader.packed_bytes(), .text_bytes = reader.text_bytes()});
  }
}

bool is_for_validation(std::string_view document, double lowest_place, const PrepareOptions& options) {
  const double place = document_place(document, options.seed);
  return options.validation_fraction > 0 && (place < options.validation_fraction || place <= lowest_place);
}

nlohmann::json to_json(const Survey& survey) {
  std::vector<uint8_t> bits((survey.duplicates.size() + 7) / 8);
  for (size_t i = 0; i < survey.duplicates.size(); ++i) {
    if (survey.duplicates[i]) bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1U << (i % 8));
  }
  return {{"bytes", survey.bytes},
          {"documents", survey.documents},
          {"texts", survey.texts},
          {"lowest_place", survey.lowest_place},
          {"sample_bytes", survey.sample_bytes},
          {"duplicates", nlohmann::json::binary(std::move(bits))}};
}

Survey survey_of(const nlohmann::json& kept) {
  Survey survey;
  kept.at("bytes").get_to(survey.bytes);
  kept.at("documents").get_to(survey.documents);
  kept.at("texts").get_to(survey.texts);
  kept.at("lowest_place").get_to(survey.lowest_place);
  kept.at("sample_bytes").get_to(survey.sample_bytes);
  for (const uint8_t byte : kept.at("duplicates").get_binary()) {
    for (int bit = 0; bit < 8; ++bit) survey.duplicates.push_back((byte >> bit & 1) != 0);
  }
  return survey;
}

}  // namespace holdfast::model
