// The token ids in a data set's files, as its manifest tells of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rendezvous/protocol/data_set.h"

namespace holdfast::worker {

// Says what is wrong with a chunk's ids: one above the largest that the manifest names; "" when nothing is, or the file has
// none.
std::string complaint_of_ids(const rendezvous::ChunkPlace& chunk, std::span<const std::byte> bytes);
// The same of whole files in a folder, whose digests are computed.
std::string complaint_of_digests(const rendezvous::DataManifest& manifest, const std::string& folder);

}  // namespace holdfast::worker
