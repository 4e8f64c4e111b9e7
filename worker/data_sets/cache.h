// The data sets of this machine: a folder with a bound on its size.
//
// Promises: where a new set needs room, those that were used longest ago go first, and none that a process uses. Several
// processes may share the folder. Refuses: with one sentence for the user.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/protocol/data_set.h"
#include "worker/data_sets/cached_set.h"

namespace holdfast::worker {

class DataCache {
 public:
  // `most_bytes`: of all sets; 0: as many as the volume has room for.
  DataCache(std::string folder, int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  const std::string& folder() const { return folder_; }
  // The manifest of a set that is here, whole or not; none: it is not here.
  tl::expected<rendezvous::DataManifest, std::string> manifest_of(const std::string& digest) const;
  // Makes room for it where it is new.
  tl::expected<std::shared_ptr<CachedSet>, std::string> open(const rendezvous::DataManifest& manifest);

 private:
  tl::expected<void, std::string> make_room(const std::string& digest, int64_t bytes) const;
  int64_t room_for(const std::string& digest) const;

  const std::string folder_;
  const int64_t most_bytes_;
};

// The folder where neither --data_cache nor --data_root is given: below $XDG_CACHE_HOME, else ~/.cache.
std::string default_cache_folder();

}  // namespace holdfast::worker
