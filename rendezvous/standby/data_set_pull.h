// Pulls the data sets that the service which leads keeps in its own folder into the folder of one that stands by.
//
// Promises: a chunk is kept only if its bytes are what its name, their SHA-256, says; a manifest comes after its chunks, and a
// name after its manifest, so what is here is whole; chunks that are here are not sent again. Nothing is removed: the one that
// leads may be the one that lacks something.
// Thread: one at a time; look() blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "rendezvous/client/http_client.h"
#include "rendezvous/data_dir/data_set_files.h"

namespace holdfast::rendezvous {

struct DataSetPullOptions {
  std::string data_dir, token;              // where they go; a token of the leader, of a role that may list data sets
  double bytes_per_s = 0;                   // on average; 0: as fast as it goes
  const std::atomic<bool>* stop = nullptr;  // once it is true, look() ends soon; outlives this object
};

class DataSetPull {
 public:
  explicit DataSetPull(DataSetPullOptions options);

  // Brings here what the service at `leader` has and this one lacks, for as long as `may_go_on` says yes, which is asked after
  // each chunk. The error is a sentence.
  tl::expected<void, std::string> look(const std::string& leader, const std::function<bool()>& may_go_on);
  int64_t pulled_bytes() const { return pulled_bytes_; }

 private:
  struct Listed {
    std::string name, digest;  // name "": it has none any more
  };
  tl::expected<std::vector<Listed>, std::string> list(HttpClient& client);
  struct Trouble {
    std::string what;
    bool of_all = false;  // not of this set alone
  };
  enum class Went { kWhole, kBrokenOff };
  tl::expected<Went, Trouble> pull_set(HttpClient& client, const std::string& digest, const std::function<bool()>& may_go_on);
  tl::expected<void, Trouble> pull_chunk(HttpClient& client, const std::string& name);
  void pace(size_t bytes);

  const DataSetPullOptions options_;
  DataSetFiles files_;
  std::set<std::string> sets_, chunks_;       // that are here
  std::map<std::string, std::string> names_;  // that are here, and the digests that they mean
  int64_t pulled_bytes_ = 0;
};

}  // namespace holdfast::rendezvous
