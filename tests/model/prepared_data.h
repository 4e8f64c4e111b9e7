// A data set that is prepared in a test: texts in one folder, token files in another.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/data/prepare/prepare.h"
#include "model/data/text/documents.h"
#include "model/data/token_file.h"
#include "tests/model/sample_text.h"
#include "tests/model/temporary_folder.h"

namespace holdfast::model {

using ::testing::AllOf;
using ::testing::HasSubstr;

inline std::vector<std::string> documents_of(const std::string& text) {
  DocumentCutter cutter;
  cutter.add(text);
  cutter.end();
  std::vector<std::string> documents;
  while (const auto document = cutter.next()) documents.emplace_back(*document);
  return documents;
}

inline std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ostringstream bytes;
    if (entry.is_regular_file()) bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    found[entry.path().filename()] = bytes.str();
  }
  return found;
}

inline std::vector<int32_t> ids_of(const std::string& path) {
  const auto file = TokenFile::open(path);
  if (!file) throw std::runtime_error(file.error());
  return {(*file)->tokens().begin(), (*file)->tokens().end()};
}

// The text in a file that was prepared with the tokenizer "bytes".
inline std::string text_of(const std::string& path) {
  const std::vector<int32_t> ids = ids_of(path);
  return {ids.begin(), ids.end()};
}

inline void write_gz(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

class PrepareTest : public ::testing::Test {
 protected:
  PrepareOptions options(const std::string& output, const std::string& tokenizer = "bytes") {
    PrepareOptions chosen;
    chosen.inputs = {text_.path()};
    chosen.output = out_.path(output);
    chosen.tokenizer = tokenizer;
    chosen.vocab_size = 700;
    chosen.validation_fraction = 0.2;
    return chosen;
  }
  void write_texts() {
    text_.write("a/english.txt", english_text());
    text_.write("b/chinese.txt", chinese_text());
    text_.write("b/short.txt", "A short one.\n");
  }
  std::string refusal_of(const PrepareOptions& chosen) {
    const auto report = prepare(chosen);
    return report ? "prepared" : report.error();
  }
  TemporaryFolder text_, out_;
};

}  // namespace holdfast::model
