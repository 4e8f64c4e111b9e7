// The records of a .jsonl file: of each line, a JSON object, the text at `field`. Lines without any character, and empty texts,
// are passed over.
#pragma once

#include <memory>
#include <string>

#include "model/data/text/records.h"

namespace holdfast::model {

std::unique_ptr<RecordReader> read_json_lines(CheckedText& text, const std::string& field);

}  // namespace holdfast::model
