#include "rendezvous/protocol/wire_types.h"

namespace holdfast::rendezvous {

std::vector<std::string> wire_type_names() {
  std::vector<std::string> names;
  for (const WireTypeRow& row : kWireTypes) names.emplace_back(row.name);
  return names;
}

std::string wire_types_in_words(std::string_view reduction) {
  std::vector<std::string_view> names;
  for (const WireTypeRow& row : kWireTypes) {
    if (row.reduction == reduction) names.push_back(row.name);
  }
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text.append(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ").append(names[i]);
  }
  return text;
}

}  // namespace holdfast::rendezvous
