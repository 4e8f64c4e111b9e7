// The description of a token file for `holdfast data info FILE`.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::model {

struct DataDescription {
  std::string path, format;  // "nanogpt" or "llm.c"
  int64_t bytes = 0;         // of the file
  int64_t tokens = 0;
  int64_t largest_id = 0;  // the smallest vocab_size that fits is one more
  int64_t distinct_ids = 0;
  int64_t mark = -1, marks = -1;  // the end-of-document id that info.json names, and how often it comes; -1: it names none
  std::string digest;             // as TokenFile::digest
  std::string info;               // the text of info.json beside it; empty when there is none or it is no JSON object
  bool listed = false;            // info.json names this digest: the file is as prepare wrote it
};

// Reads the whole file once or twice. The error is TokenFile::open's.
tl::expected<DataDescription, std::string> describe_data_file(const std::string& path);

}  // namespace holdfast::model
