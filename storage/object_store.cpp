#include "storage/object_store.h"

#include <algorithm>

#include "storage/failure.h"

namespace holdfast::storage {
namespace {

bool valid_part(std::string_view part) {
  constexpr size_t kNameBytesMax = 200;  // file systems stop at 255
  if (part.empty() || part.size() > kNameBytesMax || part.front() == '.') return false;
  return std::ranges::all_of(part, [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace

bool valid_key(std::string_view key) {
  constexpr size_t kKeyBytesMax = 1000;
  if (key.size() > kKeyBytesMax) return false;
  while (true) {
    const size_t slash = key.find('/');
    if (!valid_part(key.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    key.remove_prefix(slash + 1);
  }
}

bool is_absent(ObjectStore& store, const std::string& key) {
  const auto found = store.get(key);
  return !found && found.error().code == Error::Code::kNotFound;
}

Result<void> insist_on_key(std::string_view key, const std::string& store) {
  if (valid_key(key)) return {};
  return fail(Error::Code::kRefused,
              "\"{}\" is not an object name for {}: use parts of A-Z a-z 0-9 . _ - between slashes, not beginning with a dot",
              key, store);
}

}  // namespace holdfast::storage
