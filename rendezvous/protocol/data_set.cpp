#include "rendezvous/protocol/data_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "rendezvous/protocol/data_source.h"
#include "rendezvous/protocol/json_values.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

int64_t chunks_of(int64_t bytes) {
  return (bytes + kChunkBytes - 1) / kChunkBytes;
}

Json file_json(const DataSetFile& file) {
  Json json = {{"name", file.name}, {"bytes", file.bytes}, {"chunks", file.chunks}};
  if (file.tokens_digest.empty()) return json;
  json["tokens"] = file.tokens;
  json["largest_id"] = file.largest_id;
  json["tokens_digest"] = file.tokens_digest;
  return json;
}

// Reads fields of messages, all of which may be missing.
template <typename T>
void read_if_there(const Json& json, const char* name, T& out) {
  if (const auto found = json.find(name); found != json.end()) read(name, *found, out);
}

void read_texts(const Json& json, const char* name, std::vector<std::string>& out) {
  const auto found = json.find(name);
  if (found == json.end()) return;
  if (!found->is_array()) refuse(name, "an array", *found);
  for (const Json& text : *found) read(name, text, out.emplace_back());
}

void read_numbers(const Json& json, const char* name, std::vector<int64_t>& out, size_t most) {
  const auto found = json.find(name);
  if (found == json.end()) return;
  if (!found->is_array() || found->size() > most) refuse(name, fmt::format("an array of at most {}", most).c_str(), *found);
  for (const Json& number : *found) read(name, number, out.emplace_back());
}

std::string complaint(const DataSetFile& file) {
  if (!is_data_name(file.name)) {
    return fmt::format(".name: \"{}\" is no name of a file: 1 to {} letters, digits and ._- , without folders",
                       file.name.substr(0, 80), kDataNameBytesMax);
  }
  static constexpr std::string_view kOfWorkers[] = {"have", "in_use", "manifest.json", "started", "whole", "fetching"};
  if (std::ranges::find(kOfWorkers, file.name) != std::end(kOfWorkers))
    return fmt::format(".name: workers keep a file {} of their own beside those of a set: give it another name", file.name);
  if (file.bytes < 0 || file.bytes > kDataSetBytesMax)
    return fmt::format(".bytes: {} is out of range: 0 to {}", file.bytes, kDataSetBytesMax);
  if (static_cast<int64_t>(file.chunks.size()) != chunks_of(file.bytes)) {
    return fmt::format(".chunks: has {}, but {} bytes are {} chunks of {}", file.chunks.size(), file.bytes,
                       chunks_of(file.bytes), kChunkBytes);
  }
  const auto odd = std::ranges::find_if_not(file.chunks, is_sha256_hex);
  if (odd != file.chunks.end())
    return fmt::format(".chunks: \"{}\" is no SHA-256, which has 64 hex digits", odd->substr(0, 80));
  if (file.tokens < 0 || file.largest_id < 0 || file.largest_id > UINT16_MAX || file.tokens * 2 > file.bytes)
    return fmt::format(": {} tokens with ids up to {} cannot be in {} bytes", file.tokens, file.largest_id, file.bytes);
  if (file.tokens_digest.size() > 64) return ".tokens_digest: has more than 64 bytes";
  return "";
}

DataSetFile file_from_json(const Json& json) {
  if (!json.is_object()) refuse("files", "an array of objects", json);
  DataSetFile file;
  read_if_there(json, "name", file.name);
  read_if_there(json, "bytes", file.bytes);
  read_texts(json, "chunks", file.chunks);
  read_if_there(json, "tokens", file.tokens);
  read_if_there(json, "largest_id", file.largest_id);
  read_if_there(json, "tokens_digest", file.tokens_digest);
  return file;
}

void check_header(const Json& json) {
  if (!json.is_object()) refuse("manifest", "an object", json);
  int64_t format = 0, chunk_bytes = 0;
  read_if_there(json, "format", format);
  read_if_there(json, "chunk_bytes", chunk_bytes);
  if (format != 1) throw std::invalid_argument(fmt::format("format: {} is none that this release reads: expected 1", format));
  if (chunk_bytes != kChunkBytes)
    throw std::invalid_argument(fmt::format("chunk_bytes: {}, expected {}", chunk_bytes, kChunkBytes));
}

DataManifest read_manifest(const Json& json) {
  check_header(json);
  DataManifest manifest;
  const auto files = json.find("files");
  if (files == json.end() || !files->is_array() || files->empty() || files->size() > kDataSetFilesMax)
    throw std::invalid_argument(fmt::format("files: expected 1 to {} of them", kDataSetFilesMax));
  for (const Json& file : *files) {
    const std::string place = fmt::format("files[{}]", manifest.files.size());
    DataSetFile& read = manifest.files.emplace_back(file_from_json(file));
    if (const std::string wrong = complaint(read); !wrong.empty()) throw std::invalid_argument(place + wrong);
    if (manifest.files.size() > 1 && manifest.files[manifest.files.size() - 2].name >= read.name)
      throw std::invalid_argument(
          fmt::format("{}.name: {} does not come behind the one before: sort files by name", place, read.name));
    if (manifest.bytes() > kDataSetBytesMax)
      throw std::invalid_argument(fmt::format("files: have more than {} bytes together", kDataSetBytesMax));
  }
  if (manifest.bytes() == 0) throw std::invalid_argument("files: are all empty");
  return manifest;
}

}  // namespace

int64_t DataManifest::bytes() const {
  return std::accumulate(files.begin(), files.end(), int64_t{0},
                         [](int64_t sum, const DataSetFile& file) { return sum + file.bytes; });
}

int64_t DataManifest::chunks() const {
  return std::accumulate(files.begin(), files.end(), int64_t{0},
                         [](int64_t sum, const DataSetFile& file) { return sum + static_cast<int64_t>(file.chunks.size()); });
}

std::string DataManifest::digest() const {
  const std::string text = to_json(*this).dump();
  return sha256_hex(std::as_bytes(std::span(text)));
}

const DataSetFile* DataManifest::find(const std::string& file) const {
  const auto found = std::ranges::find(files, file, &DataSetFile::name);
  return found == files.end() ? nullptr : &*found;
}

ChunkPlace chunk_at(const DataManifest& manifest, int64_t chunk) {
  for (const DataSetFile& file : manifest.files) {
    const auto here = static_cast<int64_t>(file.chunks.size());
    if (chunk < here) {
      const int64_t offset = chunk * kChunkBytes;
      return {&file, offset, std::min(kChunkBytes, file.bytes - offset), &file.chunks[static_cast<size_t>(chunk)]};
    }
    chunk -= here;
  }
  throw std::out_of_range("chunk_at: the data set has fewer chunks");
}

int64_t first_chunk_of(const DataManifest& manifest, const DataSetFile& file) {
  int64_t first = 0;
  for (const DataSetFile& before : manifest.files) {
    if (before.name == file.name) break;
    first += static_cast<int64_t>(before.chunks.size());
  }
  return first;
}

Json to_json(const DataManifest& manifest) {
  Json files = Json::array();
  for (const DataSetFile& file : manifest.files) files.push_back(file_json(file));
  return {{"format", 1}, {"chunk_bytes", kChunkBytes}, {"files", std::move(files)}};
}

tl::expected<DataManifest, std::string> data_manifest_from_json(const Json& json) {
  try {
    return read_manifest(json);
  } catch (const std::invalid_argument& wrong) {
    return tl::unexpected(std::string(wrong.what()));
  }
}

Json to_json(const HoldersRequest& request) {
  return {{"worker", request.worker},   {"incarnation", request.incarnation},
          {"address", request.address}, {"have", request.have},
          {"first", request.first},     {"room", request.room},
          {"pin", request.pin}};
}

Json to_json(const HoldersReply& reply) {
  Json holders = Json::array();
  for (const Holder& holder : reply.holders)
    holders.push_back({{"worker", holder.worker}, {"address", holder.address}, {"have", holder.have}, {"pin", holder.pin}});
  return {{"holders", std::move(holders)}, {"take", reply.take}, {"key", reply.key}};
}

HoldersRequest holders_request_from_json(const Json& json) {
  if (!json.is_object()) refuse("body", "an object", json);
  HoldersRequest request;
  read_if_there(json, "worker", request.worker);
  read_if_there(json, "incarnation", request.incarnation);
  read_if_there(json, "address", request.address);
  read_if_there(json, "have", request.have);
  read_numbers(json, "first", request.first, kFirstMax);
  read_if_there(json, "room", request.room);
  read_if_there(json, "pin", request.pin);
  if (request.room < 0 || request.room > kTakeMax)
    throw std::invalid_argument(fmt::format("room: {} is out of range: 0 to {}", request.room, kTakeMax));
  return request;
}

HoldersReply holders_reply_from_json(const Json& json) {
  if (!json.is_object()) refuse("body", "an object", json);
  HoldersReply reply;
  read_numbers(json, "take", reply.take, kTakeMax);
  read_if_there(json, "key", reply.key);
  const auto holders = json.find("holders");
  if (holders == json.end()) return reply;
  if (!holders->is_array()) refuse("holders", "an array", *holders);
  for (const Json& one : *holders) {
    if (!one.is_object()) refuse("holders", "an array of objects", one);
    Holder& holder = reply.holders.emplace_back();
    read_if_there(one, "worker", holder.worker);
    read_if_there(one, "address", holder.address);
    read_if_there(one, "have", holder.have);
    read_if_there(one, "pin", holder.pin);
  }
  return reply;
}

std::string chunk_bits(const std::vector<bool>& have) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string bits;
  for (size_t first = 0; first < have.size(); first += 4) {
    size_t digit = 0;
    for (size_t i = first; i < first + 4; ++i) digit = digit * 2 + (i < have.size() && have[i] ? 1 : 0);
    bits += kDigits[digit];
  }
  return bits;
}

tl::expected<std::vector<bool>, std::string> chunks_of_bits(const std::string& bits, int64_t chunks) {
  const auto wrong = [&] {
    return tl::unexpected(
        fmt::format("\"{}\" is no text of {} bits in {} hex digits", bits.substr(0, 80), chunks, (chunks + 3) / 4));
  };
  if (static_cast<int64_t>(bits.size()) != (chunks + 3) / 4) return wrong();
  std::vector<bool> have;
  for (const char c : bits) {
    const bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
    if (!is_digit && !is_letter) return wrong();
    const int digit = is_digit ? c - '0' : c - 'a' + 10;
    for (int bit = 3; bit >= 0; --bit) have.push_back((digit >> bit & 1) != 0);
  }
  for (size_t behind = static_cast<size_t>(chunks); behind < have.size(); ++behind) {
    if (have[behind]) return wrong();
  }
  have.resize(static_cast<size_t>(chunks));
  return have;
}

}  // namespace holdfast::rendezvous
