// The tokenizer without training: id = byte, vocabulary 256, no mark between documents.
#pragma once

#include <memory>

#include "model/data/tokenizer.h"

namespace holdfast::model {

std::unique_ptr<Tokenizer> make_byte_tokenizer();

}  // namespace holdfast::model
