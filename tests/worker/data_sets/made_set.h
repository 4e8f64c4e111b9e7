// A data set of the test's own: its bytes, and what the service would say of it.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "rendezvous/protocol/data_set.h"
#include "rendezvous/text/sha256.h"
#include "storage/checksum.h"

namespace holdfast::worker {

struct MadeSet {
  std::string bytes;  // of its one file, train.bin
  rendezvous::DataManifest manifest;

  std::string chunk(int64_t number) const {
    const rendezvous::ChunkPlace place = rendezvous::chunk_at(manifest, number);
    return bytes.substr(static_cast<size_t>(place.offset), static_cast<size_t>(place.bytes));
  }
};

// Of so many tokens with ids up to 1000.
inline MadeSet made_set(int64_t tokens, uint32_t seed = 1) {
  MadeSet made;
  std::mt19937 random(seed);
  std::vector<uint16_t> ids(static_cast<size_t>(tokens));
  for (uint16_t& id : ids) id = static_cast<uint16_t>(random() % 1000);
  ids.front() = 1000;
  made.bytes.resize(ids.size() * 2);
  std::memcpy(made.bytes.data(), ids.data(), made.bytes.size());
  rendezvous::DataSetFile file{.name = "train.bin", .bytes = static_cast<int64_t>(made.bytes.size())};
  for (size_t at = 0; at < made.bytes.size(); at += rendezvous::kChunkBytes) {
    const auto part = std::string_view(made.bytes).substr(at, rendezvous::kChunkBytes);
    file.chunks.push_back(rendezvous::sha256_hex(std::as_bytes(std::span(part))));
  }
  file.tokens = tokens;
  file.largest_id = 1000;
  file.tokens_digest = std::to_string(tokens) + "-" + storage::checksum_hex(std::as_bytes(std::span(made.bytes)));
  made.manifest.files.push_back(std::move(file));
  return made;
}

constexpr int64_t kTokensOfChunk = rendezvous::kChunkBytes / 2;

}  // namespace holdfast::worker
