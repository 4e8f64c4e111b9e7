// Gives chunks of this worker's data sets to other workers, over HTTPS.
//
//   GET /v1/data/sets/{digest}/have         the chunks that are here, as chunk_bits
//   GET /v1/data/sets/{digest}/chunks/{i}   the bytes of one
//
// The header Holdfast-Data-Key has the data set's key (HoldersReply::key): without it 403; a set or chunk that is not here is
// 404. The receiver compares a chunk with its name. The certificate is of this process (peer_server.h): the service tells
// the others its key. Thread: any for share(); one of its own reads files.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/http/work_pool.h"
#include "worker/data_sets/cached_set.h"
#include "worker/peer_server/peer_server.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

inline constexpr const char* kDataKeyHeader = "Holdfast-Data-Key";

class ChunkServer {
 public:
  // Listens at `host` ("10.0.0.2", "[fe80::1]"), at the first free one of `ports`. The error is a sentence.
  static tl::expected<std::unique_ptr<ChunkServer>, std::string> start(const std::string& host, PortRange ports);

  const std::string& address() const { return server_.address; }
  const std::string& pin() const { return server_.pin; }  // as Holder::pin
  // Gives chunks of this set from now on to those who have `key`; a later key takes the place of an earlier one.
  void share(std::shared_ptr<CachedSet> set, const std::string& key);
  void stop_sharing(const std::string& digest);

 private:
  ChunkServer();
  void answer(const rendezvous::HttpRequest& request, const rendezvous::Reply& reply);
  rendezvous::HttpResponse read(const CachedSet& set, const std::string& what) const;

  struct Shared {
    std::shared_ptr<CachedSet> set;
    std::string key;
  };
  std::mutex mutex_;
  std::map<std::string, Shared> sets_;  // by digest
  rendezvous::WorkPool reading_;
  PeerServer server_;  // last: its threads use the others
};

}  // namespace holdfast::worker
