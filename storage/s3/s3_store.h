// An object store behind the S3 API: Amazon's, MinIO's, Ceph's, Swift's and others'.
//
// Objects are put whole, by one request each (no multipart uploads, so none is ever left unfinished), and are at most 64 MiB.
// With each goes its XXH3-128 (x-amz-meta-xxh3-128). Promises: a shard that is there whole already is not sent again, so a
// checkpoint that was broken off goes on where it stopped; other objects (manifests, parts) are read back before a put is a
// success; what is read is compared with its checksum. A failure that may pass by itself (no answer, 408, 429, 5xx) is tried
// again after growing, random pauses, and not before the server's Retry-After, until the call's one deadline. Refusals (403, a
// bucket that is not there) come back at once and say what to do: kUnavailable, since somebody may mend them while a job trains
// on. Thread: any; each call has a connection of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "storage/object_store.h"
#include "storage/places/place.h"

namespace holdfast::storage {

inline constexpr int64_t kS3ObjectBytesMax = int64_t{64} << 20;

struct S3Options {
  // The longest time for a call, retries included; a put gets another second for each MB.
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  std::chrono::milliseconds first_pause = std::chrono::milliseconds(100);
  const std::atomic<bool>* stop = nullptr;  // once it is true, reads end soon; outlives the store
};

// Asks the bucket for its first key, so that a wrong bucket or key is told here. A store that is merely away is opened.
// kNotFound, with kFail: no object is below the place. kRefused: there are no credentials here, or the place is none.
Result<std::unique_ptr<ObjectStore>> open_s3_store(const S3Place& place, MissingFolder missing, const S3Options& options = {});

// Puts an object of a few bytes there, reads it back and removes it. Returns the place, for people.
Result<std::string> try_s3_store(const S3Place& place);

}  // namespace holdfast::storage
