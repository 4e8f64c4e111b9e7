// A file that is read as a whole, such as a tokenizer's: at most 64 MiB.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace holdfast::model {

// The error names the file.
tl::expected<std::string, std::string> read_small_file(const std::string& path);

}  // namespace holdfast::model
