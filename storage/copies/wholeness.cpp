#include "storage/copies/wholeness.h"

#include <charconv>

#include "storage/checkpoint.h"
#include "storage/checksum.h"
#include "storage/failure.h"
#include "storage/manifest.h"

namespace holdfast::storage {
namespace {

// "…/shard-0000-<checksum>.hfs": the checksum; "": it is no shard.
std::string checksum_in(const std::string& key) {
  constexpr std::string_view kEnd = ".hfs";
  constexpr size_t kDigits = 32;
  if (!key.ends_with(kEnd) || key.size() < kEnd.size() + kDigits) return "";
  const std::string digits = key.substr(key.size() - kEnd.size() - kDigits, kDigits);
  return is_checksum_hex(digits) ? digits : "";
}

}  // namespace

std::optional<int64_t> step_of_manifest(const std::string& key) {
  constexpr std::string_view kHead = "step-";
  int64_t step = 0;
  if (!key.starts_with(kHead)) return std::nullopt;
  const auto [end, error] = std::from_chars(key.data() + kHead.size(), key.data() + key.size(), step);
  if (error != std::errc() || key != manifest_key(step)) return std::nullopt;
  return step;
}

Result<Bytes> get_whole(ObjectStore& store, const std::string& key) {
  auto bytes = store.get(key);
  if (!bytes) return bytes;
  const std::string name = object_name(store, key);
  if (const auto step = step_of_manifest(key)) {
    if (const auto parsed = parse_manifest(*bytes, name, *step); !parsed) return tl::unexpected(parsed.error());
  } else if (const std::string expected = checksum_in(key); !expected.empty()) {
    if (const std::string found = checksum_hex(*bytes); found != expected)
      return fail(Error::Code::kCorrupt, "{}: checksum is {}, its name says {}: it was cut short or altered", name, found,
                  expected);
  }
  return bytes;
}

}  // namespace holdfast::storage
