// Manifests of made-up files, a chunk each.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/data_sets/catalogue.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {

inline std::string chunk_named(const std::string& bytes) {
  return sha256_hex(std::as_bytes(std::span(bytes)));
}
// Files of one chunk each, "a.bin", "b.bin" …, with these contents.
inline DataManifest manifest_of(const std::vector<std::string>& contents) {
  DataManifest manifest;
  for (const std::string& bytes : contents) {
    const char letter = static_cast<char>('a' + manifest.files.size());
    manifest.files.push_back(
        {std::string(1, letter) + ".bin", static_cast<int64_t>(bytes.size()), {chunk_named(bytes)}, 0, 0, ""});
  }
  return manifest;
}
inline KeptDataSet set_of(const DataManifest& manifest, const std::string& key = "k") {
  return {manifest.digest(), std::make_shared<DataManifest>(manifest), key, 1};
}

}  // namespace holdfast::rendezvous
