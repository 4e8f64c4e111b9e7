// The data sets that the service keeps, by name and by digest.
//
// A name means one data set, the one that was last pushed under it. A data set whose name went to another stays as long as
// somebody uses it: it has a digest and no name then. A data set is shown when it is durable; until then it only holds its
// chunks, so that none of them goes.
// Thread: the owner's. Pure: times are wall times in ms; reading and writing is the caller's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/data_sets/chunk_shelf.h"
#include "rendezvous/protocol/data_set.h"

namespace holdfast::rendezvous {

struct KeptDataSet {
  std::string digest;
  std::shared_ptr<const DataManifest> manifest;
  std::string key;  // holders give chunks to those who show it
  int64_t pushed_ms = 0;
};
struct DataSetName {
  std::string name, digest;
  int64_t named_ms = 0;
};

// All that lies on the disk when the service begins.
struct FoundDataSets {
  struct FoundChunk {
    std::string name;
    int64_t bytes = 0, touched_ms = 0;
  };
  std::vector<KeptDataSet> sets;
  std::vector<DataSetName> names;
  std::vector<FoundChunk> chunks;
  std::vector<std::string> troubles;  // sentences about what could not be read
};

class Catalogue {
 public:
  static constexpr size_t kSetsMax = 1000;

  // Names of data sets that are not there mean nothing.
  void load(const FoundDataSets& found);

  // nullptr: there is none, or none that is durable yet.
  const KeptDataSet* find_digest(const std::string& digest) const;
  const DataSetName* find_name(const std::string& name) const;
  const KeptDataSet* find(const std::string& name_or_digest) const;
  const std::map<std::string, DataSetName>& names() const { return names_; }
  std::vector<std::string> name_list() const;
  std::vector<const KeptDataSet*> unnamed() const;  // durable, and nobody is keeping them just now
  bool is_named(const std::string& digest) const;
  bool is_full() const { return sets_.size() >= kSetsMax; }

  // A data set that is about to be kept: its chunks are needed from now on. Returns what to write; keep_ended() follows. The
  // key of one that is there already stays.
  KeptDataSet begin_keeping(const KeptDataSet& set);
  // `name` is empty when it was not kept: the data set is forgotten then, if it was not there before.
  void keep_ended(const std::string& digest, const DataSetName& name, int64_t now_ms);
  void forget_name(const std::string& name) { names_.erase(name); }
  // The data set is no more. Names its chunks that nobody needs now and that nobody is writing.
  std::vector<std::string> drop(const std::string& digest, int64_t now_ms);

  // Names of its chunks that are not there, each once.
  std::vector<std::string> missing_chunks(const DataManifest& manifest) const;
  ChunkShelf& chunks() { return chunks_; }
  const ChunkShelf& chunks() const { return chunks_; }

 private:
  struct Entry {
    KeptDataSet set;
    int keeping = 0;  // writes of it that are under way
    bool durable = false;
  };
  std::map<std::string, Entry> sets_;         // by digest
  std::map<std::string, DataSetName> names_;  // by name
  ChunkShelf chunks_;
};

}  // namespace holdfast::rendezvous
