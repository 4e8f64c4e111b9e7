// Documents made into units of text that are encoded each for itself, in any order, and written in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/data/prepare/document_reader.h"
#include "model/data/tokenizer.h"

namespace holdfast::model {

struct Unit {
  bool validates = false;      // goes to the validation file, not to the training file
  bool ends_document = false;  // the end-of-document id follows
  std::string text;
  std::vector<int32_t> ids;  // once encoded
};

// Of one token file: which documents continue each other there.
class UnitPlanner {
 public:
  UnitPlanner(const Tokenizer& tokenizer, bool validates) : tokenizer_(tokenizer), validates_(validates) {}

  void add(const Document& document, std::vector<Unit>& units);
  void end(std::vector<Unit>& units);  // of the file

 private:
  const Tokenizer& tokenizer_;
  bool validates_, begun_ = false;
  int64_t record_ = 0, index_ = 0;  // of the last document
  std::string undecided_;           // its end, whose ids depend on what follows
};

}  // namespace holdfast::model
