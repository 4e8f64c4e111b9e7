#include "worker/data_sets/token_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/data/token_file.h"

namespace holdfast::worker {

std::string complaint_of_ids(const rendezvous::ChunkPlace& chunk, std::span<const std::byte> bytes) {
  if (chunk.file->tokens == 0) return "";
  const int64_t first_id = chunk.file->first_id_byte();
  bytes = bytes.subspan(static_cast<size_t>(std::clamp<int64_t>(first_id - chunk.offset, 0, chunk.bytes)));
  const size_t ids = bytes.size() / sizeof(uint16_t);
  uint16_t largest = 0;
  for (size_t i = 0; i < ids; ++i) {  // a vector loop
    uint16_t id = 0;
    std::memcpy(&id, bytes.data() + i * sizeof id, sizeof id);
    largest = std::max(largest, id);
  }
  if (largest <= chunk.file->largest_id) return "";
  return fmt::format("{} has the id {} between bytes {} and {}, and the data set says that its largest is {}: push it again",
                     chunk.file->name, largest, chunk.offset, chunk.offset + chunk.bytes, chunk.file->largest_id);
}

std::string complaint_of_digests(const rendezvous::DataManifest& manifest, const std::string& folder) {
  for (const rendezvous::DataSetFile& file : manifest.files) {
    if (file.tokens_digest.empty()) continue;
    const auto tokens = model::TokenFile::open(folder + "/" + file.name);
    if (!tokens) return tokens.error();
    if (const std::string digest = (*tokens)->digest(); digest != file.tokens_digest) {
      return fmt::format("{}/{}: its tokens have the digest {}, the data set says {}", folder, file.name, digest,
                         file.tokens_digest);
    }
  }
  return "";
}

}  // namespace holdfast::worker
