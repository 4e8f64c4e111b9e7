#include "rendezvous/data_sets/chunk_shelf.h"

#include <algorithm>

namespace holdfast::rendezvous {

bool ChunkShelf::has(const std::string& name) const {
  const auto found = chunks_.find(name);
  return found != chunks_.end() && found->second.there && !found->second.going;
}

void ChunkShelf::found(const std::string& name, int64_t bytes, int64_t touched_ms) {
  Chunk& chunk = chunks_[name];
  if (!counts(chunk)) bytes_ += bytes;
  chunk.bytes = bytes;
  chunk.there = true;
  chunk.touched_ms = touched_ms;
}

void ChunkShelf::touch(const std::string& name, int64_t now_ms) {
  if (const auto found = chunks_.find(name); found != chunks_.end()) found->second.touched_ms = now_ms;
}

ChunkShelf::Put ChunkShelf::begin_put(const std::string& name, int64_t bytes, int64_t limit) {
  const auto found = chunks_.find(name);
  const bool known = found != chunks_.end();
  if (known && found->second.going) return Put::kGoing;
  if (known && found->second.there) return Put::kThere;
  const int64_t counted = known && counts(found->second) ? found->second.bytes : 0;
  const int64_t more = std::max<int64_t>(0, bytes - counted);  // another put of it may have announced too few
  if (more > 0 && limit > 0 && bytes_ + more > limit) return Put::kNoRoom;
  Chunk& chunk = chunks_[name];
  chunk.bytes = counted + more;
  bytes_ += more;
  ++chunk.coming;
  return Put::kWrite;
}

void ChunkShelf::put_ended(const std::string& name, bool written, int64_t now_ms) {
  const auto found = chunks_.find(name);
  if (found == chunks_.end()) return;
  Chunk& chunk = found->second;
  --chunk.coming;
  chunk.there = chunk.there || written;
  chunk.touched_ms = now_ms;
  if (counts(chunk)) return;
  bytes_ -= chunk.bytes;
  forget_if_nothing(name);
}

void ChunkShelf::need(const DataManifest& manifest) {
  for (const DataSetFile& file : manifest.files) {
    for (const std::string& name : file.chunks) ++chunks_[name].needed;
  }
}

std::vector<std::string> ChunkShelf::release(const DataManifest& manifest, int64_t now_ms) {
  std::vector<std::string> idle;
  for (const DataSetFile& file : manifest.files) {
    for (const std::string& name : file.chunks) {
      const auto found = chunks_.find(name);
      if (found == chunks_.end() || --found->second.needed > 0) continue;
      found->second.touched_ms = now_ms;
      if (is_idle(found->second)) idle.push_back(name);
      forget_if_nothing(name);
    }
  }
  return idle;
}

std::vector<std::string> ChunkShelf::stale(int64_t now_ms) const {
  std::vector<std::string> names;
  for (const auto& [name, chunk] : chunks_) {
    if (is_idle(chunk) && now_ms >= chunk.touched_ms + kKeptMs) names.push_back(name);
  }
  return names;
}

void ChunkShelf::give_up(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const auto found = chunks_.find(name); found != chunks_.end()) found->second.going = true;
  }
}

void ChunkShelf::gone(const std::string& name) {
  const auto found = chunks_.find(name);
  if (found == chunks_.end() || !found->second.going) return;
  bytes_ -= found->second.bytes;
  found->second.there = found->second.going = false;
  forget_if_nothing(name);
}

void ChunkShelf::lost(const std::string& name) {
  const auto found = chunks_.find(name);
  if (found == chunks_.end() || !found->second.there || found->second.going) return;
  found->second.there = false;
  if (!counts(found->second)) bytes_ -= found->second.bytes;
  forget_if_nothing(name);
}

int64_t ChunkShelf::unneeded_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, chunk] : chunks_) bytes += counts(chunk) && !chunk.going && chunk.needed == 0 ? chunk.bytes : 0;
  return bytes;
}

void ChunkShelf::forget_if_nothing(const std::string& name) {
  const auto found = chunks_.find(name);
  if (found != chunks_.end() && !counts(found->second) && found->second.needed == 0) chunks_.erase(found);
}

}  // namespace holdfast::rendezvous
