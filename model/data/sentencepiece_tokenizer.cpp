#include "model/data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "model/data/utf8.h"

namespace holdfast::model {

namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, a space inside a piece
constexpr const char* kEndOfDocument = "<|endoftext|>";
constexpr int64_t kFixedPieces = 2 + 256;  // unknown, end of document, and the bytes

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::unique_ptr<sentencepiece::SentencePieceProcessor> processor, std::string model)
      : processor_(std::move(processor)), model_(std::move(model)) {
    for (size_t byte = 0; byte < byte_ids_.size(); ++byte) byte_ids_[byte] = processor_->PieceToId(byte_piece(byte));
  }

  int64_t vocab_size() const override { return processor_->GetPieceSize(); }
  int32_t end_of_document() const override { return processor_->eos_id(); }
  const char* kind() const override { return "bpe"; }
  const char* file_name() const override { return "tokenizer.model"; }
  const std::string& file_bytes() const override { return model_; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (;;) {
      const size_t mark = text.find(kSpaceMark);
      append_encoded(text.substr(0, mark), ids);
      if (mark == std::string_view::npos) return ids;
      for (const char byte : kSpaceMark) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
      text.remove_prefix(mark + kSpaceMark.size());
    }
  }

  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id >= vocab_size() || processor_->IsUnknown(id)) return "\xEF\xBF\xBD";
    if (processor_->IsControl(id)) return "";
    const std::string& piece = processor_->IdToPiece(id);
    if (processor_->IsByte(id)) return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};  // "<0x0A>"
    std::string bytes;
    for (size_t at = 0; at < piece.size();) {
      const bool is_space = piece.compare(at, kSpaceMark.size(), kSpaceMark) == 0;
      bytes += is_space ? ' ' : piece[at];
      at += is_space ? kSpaceMark.size() : 1;
    }
    return bytes;
  }

 private:
  static std::string byte_piece(size_t byte) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", static_cast<unsigned>(byte));
    return piece;
  }

  void append_encoded(std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<int> piece_ids;
    const auto status = processor_->Encode({text.data(), text.size()}, &piece_ids);
    if (!status.ok()) throw std::runtime_error("SentencePiece cannot encode: " + status.ToString());
    ids.insert(ids.end(), piece_ids.begin(), piece_ids.end());
  }

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::string model_;
  std::array<int32_t, 256> byte_ids_;
};

// Hands documents to the trainer as it wants them: in short lines. Cut at control characters, which are always encoded as
// bytes, and at the trainer's limit, above which it would leave a line out.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::vector<std::string>& documents) : documents_(documents) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void Next() override {
    for (; document_ < documents_.size(); ++document_, at_ = 0) {
      const std::string_view rest = std::string_view(documents_[document_]).substr(at_);
      const size_t begin = static_cast<size_t>(std::ranges::find_if_not(rest, is_control) - rest.begin());
      if (begin == rest.size()) continue;
      const size_t length = line_length(rest.substr(begin));
      line_ = rest.substr(begin, length);
      at_ += begin + length;
      return;
    }
    done_ = true;
  }

 private:
  static constexpr size_t kLineBytes = 4000;
  static bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }

  static size_t line_length(std::string_view text) {
    size_t length = static_cast<size_t>(std::ranges::find_if(text, is_control) - text.begin());
    if (length <= kLineBytes) return length;
    for (length = kLineBytes; utf8_length(text.substr(length)) == 0; --length) {
    }
    return length;
  }

  const std::vector<std::string>& documents_;
  size_t document_ = 0, at_ = 0;
  std::string line_;
  bool done_ = false;
};

// The number that follows `words` in `message`; -1 when they are not there.
int64_t number_after(std::string_view message, std::string_view words) {
  const size_t at = message.find(words);
  if (at == std::string_view::npos) return -1;
  int64_t number = -1;
  std::from_chars(message.data() + at + words.size(), message.data() + message.size(), number);
  return number;
}

// The library's own words for the two sizes that cannot be had, turned into what to do.
std::string explain_failure(const std::string& message, int64_t vocab_size) {
  const std::string asked = "vocab_size " + std::to_string(vocab_size);
  if (const int64_t most = number_after(message, "set it to a value <= "); most >= 0) {
    return asked + " is larger than this text can fill: choose at most " + std::to_string(most) + ", or give more text.";
  }
  // "Vocabulary size is smaller than required_chars. 260 vs 512. ..."
  if (const int64_t required = number_after(message, " vs "); required >= 0) {
    return asked + " is too small for the characters of this text: choose at least " + std::to_string(required + 1) +
           ", or use the tokenizer \"bytes\".";
  }
  return "SentencePiece could not train a tokenizer with " + asked + ": " + message;
}

}  // namespace

tl::expected<std::unique_ptr<Tokenizer>, std::string> load_sentencepiece(std::string model, const std::string& origin) {
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto(model);
  if (!status.ok()) {
    return tl::unexpected(origin + ": is not a SentencePiece model (" + status.ToString() +
                          "). Give the tokenizer.model that `holdfast data prepare` wrote.");
  }
  if (!processor->IsByte(processor->PieceToId("<0x00>"))) {
    return tl::unexpected(origin +
                          ": this SentencePiece model has no byte fallback, so it would lose text. Train one with "
                          "byte_fallback, or let `holdfast data prepare` make it.");
  }
  return std::make_unique<SentencePieceTokenizer>(std::move(processor), std::move(model));
}

tl::expected<std::string, std::string> train_sentencepiece(const std::vector<std::string>& documents, int64_t vocab_size) {
  if (vocab_size <= kFixedPieces || vocab_size > 65536) {
    return tl::unexpected("vocab_size " + std::to_string(vocab_size) + ": expected " + std::to_string(kFixedPieces + 1) +
                          " to 65536 (256 bytes and 2 marks are always in it; token files hold 16-bit ids).");
  }
  const std::unordered_map<std::string, std::string> settings = {
      {"minloglevel", "4"},  // quiet: what matters comes back as a status
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab_size)},
      {"character_coverage", "0.9995"},  // of Chinese text too; the rest is bytes
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"allow_whitespace_only_pieces", "true"},  // indentation
      {"split_digits", "true"},
      {"unk_id", "0"},
      {"eos_id", "1"},
      {"eos_piece", kEndOfDocument},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"num_threads", "1"},  // the same files on every machine
      {"train_extremely_large_corpus", "false"},
  };
  Lines lines(documents);
  if (lines.done()) return tl::unexpected(std::string("there is no text to train a tokenizer on."));
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  if (!status.ok()) return tl::unexpected(explain_failure(status.ToString(), vocab_size));
  return model;
}

std::vector<SentencePiecePiece> sentencepiece_pieces(const std::string& model) {
  using enum SentencePiecePiece::Kind;
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.LoadFromSerializedProto(model);
  if (!status.ok())
    throw std::runtime_error("a SentencePiece model that was loaded before does not load: " + status.ToString());
  std::vector<SentencePiecePiece> pieces;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    const auto kind = processor.IsUnknown(id)   ? kUnknown
                      : processor.IsControl(id) ? kControl
                      : processor.IsByte(id)    ? kByte
                      : processor.IsUnused(id)  ? kUnused
                                                : kNormal;
    pieces.push_back({processor.IdToPiece(id), processor.GetScore(id), kind});
  }
  return pieces;
}

}  // namespace holdfast::model
