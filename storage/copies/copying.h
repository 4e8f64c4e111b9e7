// Checkpoints that are kept in two places: copied from the first to the second, and mended from each other.
//
// Promises: the manifest is the last object to come to a place, so a copy is there whole or not at all; an object that is there
// whole is not sent again; nothing is sent that was not whole where it was read. "Whole" is what an object's checksum says: of
// a shard the one in its manifest, of a manifest its own. Thread: any.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "storage/checkpoint.h"

namespace holdfast::storage {

struct CopyOptions {
  double bytes_per_s = 0;  // on average, of what is sent; 0: as fast as it goes
  Stop stop = nullptr;     // once it is true the copy ends soon, with kUnavailable
};
struct CopyOutcome {
  Manifest manifest;
  int64_t sent_bytes = 0, sent_shards = 0, kept_shards = 0;
};
// kNotFound: there is no such checkpoint to copy (any more). kCorrupt: it is not whole there, and which object is not.
Result<CopyOutcome> copy_checkpoint(ObjectStore& from, ObjectStore& to, int64_t step, const CopyOptions& options = {});

struct Mending {
  std::vector<std::string> mended;  // objects that were not whole in one place and are now, with the place
  std::vector<std::string> lost;    // objects that are whole in neither, with both reasons
};
// Looks at every object of a checkpoint in both places, and writes those that are not whole in one from the other. The error: a
// place could not be asked or written, or neither has a manifest that reads.
Result<Mending> mend_checkpoint(ObjectStore& first, ObjectStore& second, int64_t step);

// Both places as one, for reading: each object comes from the first place, and where it is not whole there from the second,
// with which it is then mended, a manifest after all of its shards were seen whole there. Lists have what either place has. A
// put goes to the first. `tell`: gets a sentence about each object that was mended, or was taken from the second place while
// the first was away; any thread calls it.
using TellOfMending = std::function<void(const std::string& text)>;
std::unique_ptr<ObjectStore> join_places(std::unique_ptr<ObjectStore> first, std::unique_ptr<ObjectStore> second,
                                         TellOfMending tell = nullptr);

}  // namespace holdfast::storage
