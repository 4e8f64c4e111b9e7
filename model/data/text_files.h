// The text that a data set is made of: which files, and what is in them.
//
// Promises: the same order on every machine: inputs as given, the files of a folder by their path's bytes; each file once,
// however often it is named. Files ending in .gz are unpacked. A byte-order mark at a file's start is dropped.
// Refuses: what is missing, unreadable, damaged, or no UTF-8 text, with the file, the byte offset and what to do.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::model {

// Files below folders are found at any depth, except those (and folders) whose name starts with a dot.
tl::expected<std::vector<std::string>, std::string> list_text_files(const std::vector<std::string>& inputs);

// The whole file in memory: a data set may be larger than memory, one of its files not.
tl::expected<std::string, std::string> read_text_file(const std::string& path);

}  // namespace holdfast::model
