// A data set on this machine, as far as it is here: its files at their full length, and a flag for each chunk that has come.
//
// FOLDER/<digest>/ has manifest.json, the data set's files, `have` (a byte for each chunk, shared by all processes that use the
// set), `in_use` (locked by them) and, once the set is here and durable, `whole`.
//
// Promises: a chunk's flag is set after its bytes are in the file. Flags that were set before the machine was last started,
// when bytes may have been lost, count only where the set is `whole`; of others the bytes are read again and compared with the
// chunk's name. While an object of this class lives, no process removes the set (cache.h).
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "rendezvous/protocol/data_set.h"

namespace holdfast::worker {

// An open file, closed with the object.
class OpenFile {
 public:
  explicit OpenFile(int descriptor = -1) : descriptor_(descriptor) {}
  OpenFile(OpenFile&& other) noexcept : descriptor_(other.release()) {}
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int release();
  int descriptor_;
};

class CachedSet {
 public:
  // The folder is made if it is not there, with room for all files where the volume can say so. `in_use`: its lock, which the
  // object keeps. The error is a sentence that names the file.
  static tl::expected<std::shared_ptr<CachedSet>, std::string> open(const std::string& folder,
                                                                    rendezvous::DataManifest manifest, OpenFile in_use);
  ~CachedSet();
  CachedSet(const CachedSet&) = delete;
  CachedSet& operator=(const CachedSet&) = delete;

  const std::string& folder() const { return folder_; }
  const rendezvous::DataManifest& manifest() const { return manifest_; }
  std::string path_of(const std::string& file) const { return folder_ + "/" + file; }

  int64_t chunks() const { return static_cast<int64_t>(flags_.size()); }
  bool has(int64_t chunk) const;
  std::vector<bool> have() const;
  int64_t missing() const;
  bool is_whole() const { return missing() == 0; }

  // `bytes` are the chunk's, which the caller has compared with its name. The error is a sentence, as of a full disk.
  tl::expected<void, std::string> put(int64_t chunk, std::span<const std::byte> bytes);
  tl::expected<std::string, std::string> get(int64_t chunk) const;  // a chunk that is here
  // All have come: makes them durable, so that they count after the machine's next start, too.
  tl::expected<void, std::string> finish();
  // Reads all chunks that are said to be here, and takes back the flags of those whose bytes are others. Returns how many.
  int64_t verify();

 private:
  CachedSet(std::string folder, rendezvous::DataManifest manifest, OpenFile in_use);
  tl::expected<void, std::string> make_files();
  tl::expected<void, std::string> map_flags();
  void set_flag(int64_t chunk, bool here);

  const std::string folder_;
  const rendezvous::DataManifest manifest_;
  const OpenFile in_use_;
  struct Place {  // of a chunk
    size_t file;
    int64_t offset, bytes;
  };
  std::vector<Place> places_;
  std::vector<OpenFile> files_;  // as in the manifest
  std::span<uint8_t> flags_;     // mapped
};

}  // namespace holdfast::worker
