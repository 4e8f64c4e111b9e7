// Real text for tests: the repository's licence in English, and a few paragraphs in Chinese. The macro HOLDFAST_SOURCE_DIR is
// the repository's root.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace holdfast::model {

inline std::string read_source_file(const std::string& name) {
  std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) + "/" + name, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw std::runtime_error("the repository has no readable file " + name);
  return text.str();
}

inline const std::string& english_text() {
  static const std::string text = read_source_file("LICENSE");
  return text;
}

inline const std::string& chinese_text() {
  static const std::string text = read_source_file("tests/model/chinese.txt");
  return text;
}

}  // namespace holdfast::model
