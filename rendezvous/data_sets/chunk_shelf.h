// The chunks that the service keeps: which are there, how many bytes they have, and which of them data sets need.
//
// Promises: a chunk that a data set needs is never given up. A chunk that none needs stays for kKeptMs since a push last had
// to do with it, so that a push that was interrupted goes on; then stale() names it. A chunk that is going is not there: it
// comes back only when its file is gone (a file that is written and removed at once could end either way).
// Thread: the owner's. Pure: `now_ms` is a wall time; reading and writing is the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/protocol/data_set.h"

namespace holdfast::rendezvous {

class ChunkShelf {
 public:
  static constexpr int64_t kKeptMs = 24 * 3600 * int64_t{1000};

  bool has(const std::string& name) const;
  void found(const std::string& name, int64_t bytes, int64_t touched_ms);  // on the disk, at the start
  void touch(const std::string& name, int64_t now_ms);                     // a push has to do with it

  enum class Put : uint8_t {
    kThere,   // nothing to do
    kWrite,   // to be written; put_ended() follows
    kGoing,   // its file is being removed: not now
    kNoRoom,  // it would pass the limit
  };
  // `limit`: of bytes(); 0: none.
  Put begin_put(const std::string& name, int64_t bytes, int64_t limit);
  void put_ended(const std::string& name, bool written, int64_t now_ms);

  void need(const DataManifest& manifest);
  // A data set that is no more, or that could not be kept. Names the chunks that nobody needs now and that nobody is writing.
  std::vector<std::string> release(const DataManifest& manifest, int64_t now_ms);
  std::vector<std::string> stale(int64_t now_ms) const;
  // From now on the chunks are going: their files are to be removed, and gone() called for each.
  void give_up(const std::vector<std::string>& names);
  void gone(const std::string& name);
  void lost(const std::string& name);  // its file is damaged or missing: it is to be pushed again

  int64_t bytes() const { return bytes_; }  // of chunks that are there, coming or going
  int64_t unneeded_bytes() const;           // of these, of chunks that no data set needs and that are not going
  size_t size() const { return chunks_.size(); }

 private:
  struct Chunk {
    int64_t bytes = 0;
    int32_t needed = 0;  // places in data sets
    int16_t coming = 0;  // writes under way
    bool there = false, going = false;
    int64_t touched_ms = 0;
  };
  static bool counts(const Chunk& chunk) { return chunk.there || chunk.coming > 0 || chunk.going; }
  static bool is_idle(const Chunk& chunk) { return chunk.there && !chunk.going && chunk.needed == 0 && chunk.coming == 0; }
  void forget_if_nothing(const std::string& name);

  std::unordered_map<std::string, Chunk> chunks_;
  int64_t bytes_ = 0;
};

}  // namespace holdfast::rendezvous
