// A file's text cut into documents, and each document dealt to training or validation.
//
// Promises: where a cut falls depends on the file's text alone, and a document's place on (its text, seed) alone. Documents in
// order are the file's text, byte for byte.
// A document is for validation when its place is below the fraction, so adding a file to a data set moves no other document.
// The one exception: where no place is below the fraction (a small text, or a small fraction), the document with the lowest
// place is for validation, so that there is one; a file that is added moves it to training if it brings a lower place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace holdfast::model {

// A document ends at the first blank line after kDocumentBytes; where none comes, at the first line's end after 4 times
// that; where none comes either, at the first character's end after 8 times that.
constexpr size_t kDocumentBytes = 4096;
std::vector<std::string_view> cut_into_documents(std::string_view text);

// Uniform in [0, 1): below the validation fraction means validation.
double document_place(std::string_view document, uint64_t seed);

}  // namespace holdfast::model
