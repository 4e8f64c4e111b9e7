#include "storage/manifest.h"

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "storage/checksum.h"
#include "storage/failure.h"
#include "storage/json/outside_json.h"
#include "storage/shards/codec.h"
#include "storage/shards/layout.h"

namespace holdfast::storage {
namespace {

using nlohmann::json;

// The first line of the file, and all of it that its checksum does not cover.
constexpr std::string_view kHead = "{\"checksum\": \"";
constexpr std::string_view kHeadEnd = "\",\n";
constexpr size_t kHeadBytes = kHead.size() + 32 + kHeadEnd.size();

// The fault of a field; becomes an Error at the edge of this file.
struct FieldProblem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Arguments>
[[noreturn]] void refuse(const std::string& field, fmt::format_string<Arguments...> what, Arguments&&... arguments) {
  throw FieldProblem(fmt::format("\"{}\" {}", field, fmt::format(what, std::forward<Arguments>(arguments)...)));
}

const json& member(const json& object, const std::string& field) {
  const auto found = object.find(field);
  if (found == object.end()) refuse(field, "is missing");
  return *found;
}
std::string text(const json& object, const std::string& field) {
  const json& value = member(object, field);
  if (!value.is_string()) refuse(field, "is not a string");
  return value.get<std::string>();
}
int64_t natural(const json& value, const std::string& field) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0)
    refuse(field, "is {}, expected an integer of 0 or more", value.dump());
  return value.get<int64_t>();
}
int64_t natural_member(const json& object, const std::string& field) {
  return natural(member(object, field), field);
}
const json& array(const json& object, const std::string& field) {
  const json& value = member(object, field);
  if (!value.is_array()) refuse(field, "is not an array");
  return value;
}
std::string checksum(const json& object, const std::string& field) {
  std::string value = text(object, field);
  if (!is_checksum_hex(value)) refuse(field, "is \"{}\", expected 32 lower-case hex digits", value);
  return value;
}

TensorInfo parse_tensor(const json& entry) {
  if (!entry.is_object()) refuse("tensors", "has an entry that is not an object");
  TensorInfo tensor{text(entry, "name"), text(entry, "dtype"), {}, natural_member(entry, "bytes")};
  for (const json& extent : array(entry, "shape")) tensor.shape.push_back(natural(extent, "shape"));
  const std::optional<int64_t> bytes = tensor_bytes(tensor.dtype, tensor.shape);
  if (bytes != tensor.bytes) {
    refuse("tensors", "says that {} ({}) has {} bytes, expected {}", tensor.name, tensor.dtype, tensor.bytes,
           bytes ? fmt::format("{} from its shape", *bytes) : "a known type and a possible shape");
  }
  return tensor;
}

ShardInfo parse_shard(const json& entry, const std::string& prefix) {
  if (!entry.is_object()) refuse("shards", "has an entry that is not an object");
  ShardInfo shard{text(entry, "key"),
                  natural_member(entry, "raw_bytes"),
                  natural_member(entry, "stored_bytes"),
                  checksum(entry, "checksum"),
                  {}};
  if (!valid_key(shard.key) || !shard.key.starts_with(prefix))
    refuse("shards", "names \"{}\", expected a name that begins with {}", shard.key, prefix);
  if (shard.raw_bytes > kShardRawBytesMax)
    refuse("shards", "says that {} holds {} bytes, at most {} are possible", shard.key, shard.raw_bytes, kShardRawBytesMax);
  if (!entry.contains("pieces")) return shard;
  for (const json& run : array(entry, "pieces")) {
    if (!run.is_array() || run.size() != 2)
      refuse("pieces", "has {}, expected two integers: the first and how many", run.dump());
    shard.pieces.push_back({natural(run[0], "pieces"), natural(run[1], "pieces")});
  }
  return shard;
}

void check_layout(const Manifest& manifest) {
  std::set<std::string> names;
  int64_t total = 0;
  for (const TensorInfo& tensor : manifest.tensors) {
    if (!names.insert(tensor.name).second) refuse("tensors", "names {} twice", tensor.name);
    if (__builtin_add_overflow(total, tensor.bytes, &total)) refuse("tensors", "have more bytes than can be counted");
  }
  if (const auto contents = contents_of(manifest.tensors, manifest.shards); !contents) refuse("shards", "{}", contents.error());
}

Manifest parse_fields(const json& file, int64_t step) {
  Manifest manifest;
  manifest.written_by = text(file, "written_by");
  manifest.job = text(file, "job");
  manifest.step = natural_member(file, "step");
  if (manifest.step != step) refuse("step", "is {}, expected {}", manifest.step, step);
  manifest.generation = natural_member(file, "generation");
  manifest.state_hash = checksum(file, "state_hash");
  manifest.created_at = text(file, "created_at");
  manifest.spec = member(file, "spec");
  manifest.data = member(file, "data");
  for (const json& entry : array(file, "tensors")) manifest.tensors.push_back(parse_tensor(entry));
  for (const json& entry : array(file, "shards")) manifest.shards.push_back(parse_shard(entry, checkpoint_prefix(step)));
  check_layout(manifest);
  return manifest;
}

json tensors_json(const Manifest& manifest) {
  json list = json::array();
  for (const TensorInfo& t : manifest.tensors)
    list.push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}, {"bytes", t.bytes}});
  return list;
}
json shard_json(const ShardInfo& s) {
  json shard{{"key", s.key}, {"raw_bytes", s.raw_bytes}, {"stored_bytes", s.stored_bytes}, {"checksum", s.checksum}};
  for (const PieceRun& run : s.pieces) shard["pieces"].push_back({run.first, run.count});
  return shard;
}
json shards_json(std::span<const ShardInfo> shards) {
  json list = json::array();
  for (const ShardInfo& shard : shards) list.push_back(shard_json(shard));
  return list;
}

std::string with_checksum(const json& object) {
  std::string body = object.dump(1) + "\n";
  body.erase(0, 2);  // "{\n": the checksum's line stands there
  return std::string(kHead) + checksum_hex(std::as_bytes(std::span(body))) + std::string(kHeadEnd) + body;
}

// The object, once its first line and its checksum are right.
Result<json> parse_checked(std::span<const std::byte> bytes, const std::string& name, const char* kind) {
  constexpr auto kCorrupt = Error::Code::kCorrupt;
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (file.size() < kHeadBytes || !file.starts_with(kHead) ||
      file.substr(kHeadBytes - kHeadEnd.size(), kHeadEnd.size()) != kHeadEnd) {
    return fail(kCorrupt,
                "{}: does not begin with a checksum line, as a {} does: it was altered, cut short or is another program's",
                name, kind);
  }
  const std::string_view expected = file.substr(kHead.size(), 32);
  const std::string found = checksum_hex(bytes.subspan(kHeadBytes));
  if (expected != found)
    return fail(kCorrupt, "{}: checksum is {}, expected {}: it was altered or torn", name, found, expected);
  ParsedJson parsed = parse_json(file);
  if (parsed.too_deep) return fail(kCorrupt, "{}: is nested deeper than {} levels", name, kJsonDepthMax);
  if (!parsed.json.is_object()) return fail(kCorrupt, "{}: is not a JSON object", name);
  return std::move(parsed.json);
}

std::string hex(const PieceDigest& digest) {
  std::string text;
  for (const std::byte byte : digest.bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}
PieceDigest digest_of_hex(const std::string& text) {
  PieceDigest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i)
    digest.bytes[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return digest;
}

Part parse_part_fields(const json& file, int64_t step) {
  Part part;
  part.step = natural_member(file, "step");
  if (part.step != step) refuse("step", "is {}, expected {}", part.step, step);
  part.generation = natural_member(file, "generation");
  part.state_hash = checksum(file, "state_hash");
  part.of = {natural_member(file, "writer"), natural_member(file, "writers")};
  int64_t pieces = 0;
  for (const json& entry : array(file, "shards")) {
    part.shards.push_back(parse_shard(entry, checkpoint_prefix(part.step)));
    for (const PieceRun& run : part.shards.back().pieces) {
      if (__builtin_add_overflow(pieces, run.count, &pieces)) refuse("pieces", "are more than can be counted");
    }
  }
  for (const json& entry : array(file, "digests")) {
    const std::string digest = entry.is_string() ? entry.get<std::string>() : "";
    if (!is_checksum_hex(digest)) refuse("digests", "has {}, expected 32 lower-case hex digits", entry.dump());
    part.digests.push_back(digest_of_hex(digest));
  }
  if (static_cast<int64_t>(part.digests.size()) != pieces)
    refuse("digests", "are {}, its shards name {} pieces", part.digests.size(), pieces);
  return part;
}

}  // namespace

std::string this_writer() {
  return std::string("holdfast ") + HOLDFAST_VERSION;
}

std::string object_name(const ObjectStore& store, const std::string& key) {
  return key + " in " + store.describe();
}

std::string checkpoint_prefix(int64_t step) {
  return fmt::format("step-{:010}/", step);
}

std::string manifest_key(int64_t step) {
  return checkpoint_prefix(step) + "manifest.json";
}

int64_t Manifest::raw_bytes() const {
  int64_t sum = 0;
  for (const ShardInfo& shard : shards) sum += shard.raw_bytes;
  return sum;
}
int64_t Manifest::stored_bytes() const {
  int64_t sum = 0;
  for (const ShardInfo& shard : shards) sum += shard.stored_bytes;
  return sum;
}

Result<std::string> format_manifest(const Manifest& m) {
  try {
    return with_checksum({{"format_version", m.format_version},
                          {"written_by", m.written_by},
                          {"job", m.job},
                          {"step", m.step},
                          {"generation", m.generation},
                          {"state_hash", m.state_hash},
                          {"created_at", m.created_at},
                          {"spec", m.spec},
                          {"data", m.data},
                          {"tensors", tensors_json(m)},
                          {"shards", shards_json(m.shards)}});
  } catch (const json::exception& e) {
    return fail(Error::Code::kRefused, "the manifest of step {} cannot be written as JSON: {}", m.step, e.what());
  }
}

Result<Manifest> parse_manifest(std::span<const std::byte> bytes, const std::string& name, int64_t step) {
  const auto parsed = parse_checked(bytes, name, "manifest");
  if (!parsed) return tl::unexpected(parsed.error());
  try {
    const int64_t version = natural_member(*parsed, "format_version");
    if (version > Manifest::kFormatVersion) {
      const auto writer = parsed->find("written_by");
      return fail(
          Error::Code::kRefused,
          "{}: is of format version {}, written by {}; {} reads up to version {}: use the one that wrote it, or a newer one",
          name, version, writer != parsed->end() && writer->is_string() ? writer->get<std::string>() : "an unnamed program",
          this_writer(), int{Manifest::kFormatVersion});
    }
    if (version < 1) refuse("format_version", "is {}, expected 1 or {}", version, int{Manifest::kFormatVersion});
    Manifest manifest = parse_fields(*parsed, step);
    manifest.format_version = static_cast<int>(version);
    return manifest;
  } catch (const FieldProblem& problem) {
    return fail(Error::Code::kCorrupt, "{}: {}", name, problem.what());
  }
}

std::string format_part(const Part& part) {
  json digests = json::array();
  for (const PieceDigest& digest : part.digests) digests.push_back(hex(digest));
  return with_checksum({{"step", part.step},
                        {"generation", part.generation},
                        {"state_hash", part.state_hash},
                        {"writer", part.of.writer},
                        {"writers", part.of.writers},
                        {"shards", shards_json(part.shards)},
                        {"digests", std::move(digests)}});
}

Result<Part> parse_part(std::span<const std::byte> bytes, const std::string& name, int64_t step) {
  const auto parsed = parse_checked(bytes, name, "part of a checkpoint");
  if (!parsed) return tl::unexpected(parsed.error());
  try {
    return parse_part_fields(*parsed, step);
  } catch (const FieldProblem& problem) {
    return fail(Error::Code::kCorrupt, "{}: {}", name, problem.what());
  }
}

}  // namespace holdfast::storage
