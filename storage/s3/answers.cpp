#include "storage/s3/answers.h"

#include <expat.h>

#include <memory>
#include <utility>

namespace holdfast::storage {
namespace {

// The elements that have only text in them, in their order, and the name of the outermost.
struct Leaves {
  std::string root;
  std::vector<std::pair<std::string, std::string>> all;

  std::string first(std::string_view name) const {
    for (const auto& [leaf, text] : all) {
      if (leaf == name) return text;
    }
    return "";
  }
};

struct Reader {
  Leaves leaves;
  std::string text;
  bool is_leaf = false;
};

std::string_view local(const char* name) {
  const std::string_view whole(name);
  const size_t colon = whole.rfind(':');
  return colon == whole.npos ? whole : whole.substr(colon + 1);
}

void begin(void* pointer, const XML_Char* name, const XML_Char**) {
  auto& reader = *static_cast<Reader*>(pointer);
  if (reader.leaves.root.empty()) reader.leaves.root = local(name);
  reader.text.clear();
  reader.is_leaf = true;
}
void end(void* pointer, const XML_Char* name) {
  auto& reader = *static_cast<Reader*>(pointer);
  if (std::exchange(reader.is_leaf, false)) reader.leaves.all.emplace_back(local(name), std::exchange(reader.text, ""));
}
void take_text(void* pointer, const XML_Char* text, int bytes) {
  static_cast<Reader*>(pointer)->text.append(text, static_cast<size_t>(bytes));
}

std::optional<Leaves> leaves_of(std::string_view xml) {
  const std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser(XML_ParserCreate("UTF-8"), &XML_ParserFree);
  if (!parser) return std::nullopt;
  Reader reader;
  XML_SetUserData(parser.get(), &reader);
  XML_SetElementHandler(parser.get(), &begin, &end);
  XML_SetCharacterDataHandler(parser.get(), &take_text);
  if (XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE) != XML_STATUS_OK) return std::nullopt;
  return std::move(reader.leaves);
}

}  // namespace

std::optional<S3List> parse_s3_list(std::string_view xml) {
  const auto leaves = leaves_of(xml);
  if (!leaves || leaves->root != "ListBucketResult") return std::nullopt;
  S3List list;
  for (const auto& [name, text] : leaves->all) {
    if (name == "Key") list.keys.push_back(text);
  }
  if (leaves->first("IsTruncated") == "true") {
    list.next = leaves->first("NextContinuationToken");
    if (list.next.empty()) return std::nullopt;
  }
  return list;
}

S3Problem parse_s3_problem(std::string_view xml) {
  const auto leaves = leaves_of(xml);
  if (!leaves) return {};
  return {leaves->first("Code"), leaves->first("Message"), leaves->first("Region"), leaves->first("ServerTime")};
}

}  // namespace holdfast::storage
