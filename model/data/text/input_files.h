// The files that a data set is made of.
//
// Promises: the same order on every machine: inputs as given, the files of a folder by their path's bytes; each file once,
// however often it is named.
// Refuses: what is missing or cannot be read twice (a pipe), and a folder that cannot be walked or has no file, by name.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::model {

// Files below folders are found at any depth, except those (and folders) whose name starts with a dot.
tl::expected<std::vector<std::string>, std::string> list_input_files(const std::vector<std::string>& inputs);

}  // namespace holdfast::model
