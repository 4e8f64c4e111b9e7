#include "model/data/prepare/units.h"

#include <utility>

namespace holdfast::model {

void UnitPlanner::add(const Document& document, std::vector<Unit>& units) {
  const bool continues = begun_ && document.record == record_ && document.index == index_ + 1;
  if (!continues) end(units);
  begun_ = true;
  record_ = document.record;
  index_ = document.index;
  std::string text = std::exchange(undecided_, {}) + document.text;
  const size_t decided = text.size() - tokenizer_.undecided_bytes(text);
  undecided_ = text.substr(decided);
  text.resize(decided);
  units.push_back({.validates = validates_, .ends_document = false, .text = std::move(text), .ids = {}});
}

void UnitPlanner::end(std::vector<Unit>& units) {
  if (begun_)
    units.push_back({.validates = validates_, .ends_document = true, .text = std::exchange(undecided_, {}), .ids = {}});
  begun_ = false;
}

}  // namespace holdfast::model
