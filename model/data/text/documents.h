// Texts cut into documents, and each document dealt to training or validation.
//
// Promises: where a cut falls depends on the text alone, and a document's place on (its text, seed) alone. Documents in order
// are the text, byte for byte. A document is for validation when its place is below the fraction, so adding a text to a data
// set moves no other document. The one exception: where no place is below the fraction (a small data set, or a small fraction),
// the document with the lowest place is for validation, so that there is one; a text that is added moves it to training if it
// brings a lower place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::model {

// A document ends at the first blank line after kDocumentBytes; where none comes, at the first line's end after 4 times
// that; where none comes either, at the first character's end after 8 times that.
constexpr size_t kDocumentBytes = 4096;

// Cuts a text that comes in parts, in memory for a document or two.
class DocumentCutter {
 public:
  void add(std::string_view part);  // valid UTF-8
  void end();                       // of the text; the next `add` begins another one, once all documents of this one are taken
  // The next document, which stays until `next` or `add` is called; nothing where more text is needed, or all is taken.
  std::optional<std::string_view> next();

 private:
  std::string text_;
  size_t taken_ = 0;  // bytes at the beginning of text_
  bool ended_ = false;
};

// Uniform in [0, 1): below the validation fraction means validation.
double document_place(std::string_view document, uint64_t seed);

}  // namespace holdfast::model
