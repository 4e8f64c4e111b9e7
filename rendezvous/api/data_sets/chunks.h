// Routes of chunks: which are missing, and their bytes.
//
// Promises: a put is answered when the chunk is durable, and a chunk is verified against its name before it is kept and when it
// is read. A chunk that turns out damaged counts as missing from then on, so the next push brings it again.
// Thread: the owner's; bytes are hashed, read and written on the keeper's threads.
#pragma once

#include <string>

#include "rendezvous/api/data_sets/keeper.h"

namespace holdfast::rendezvous {

class DataChunksApi {
 public:
  static constexpr size_t kNamesMax = 10'000;

  explicit DataChunksApi(DataKeeper& keeper) : keeper_(keeper) {}

  void post_missing(Call& call);
  void put_chunk(Call& call);
  void get_chunk(Call& call);

 private:
  Problem no_room(int64_t bytes) const;
  void note_lost(const std::string& name, const storage::Error& why);

  DataKeeper& keeper_;
};

}  // namespace holdfast::rendezvous
