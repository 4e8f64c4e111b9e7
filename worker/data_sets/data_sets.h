// The data sets that a worker's jobs name (data:NAME), brought to this machine and given to other workers.
//
// Promises: the sets of the present job, and of the last one while there is none, are here for other workers.
// Thread: open() and keep() from the train thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "worker/data_sets/cache.h"
#include "worker/data_sets/fetcher.h"
#include "worker/link/outbox.h"
#include "worker/link/service_link.h"
#include "worker/session/data_sets.h"
#include "worker/transport/transport.h"

namespace holdfast::worker {

struct DataSetOptions {
  std::string cache_folder;
  int64_t cache_bytes = 0;  // 0: as much as the volume has room for
  std::string host;         // to give chunks at; "": this worker gives none
  PortRange ports = {};
};

class DataSets final : public DataSetOpener {
 public:
  DataSets(ServiceLink& link, Outbox& outbox, DataSetOptions options);

  void begin(const std::string& job, const std::vector<rendezvous::DataSource>& sources) override;
  tl::expected<OpenedFile, std::string> open(const rendezvous::DataSource& source, const std::atomic<bool>* stop) override;

 private:
  ChunkServer* server();  // null: this worker gives none
  tl::expected<std::shared_ptr<Fetcher>, std::string> fetcher_of(const rendezvous::DataSource& source,
                                                                 const std::atomic<bool>* stop);
  tl::expected<rendezvous::DataManifest, std::string> manifest_of(const rendezvous::DataSource& source,
                                                                  const std::atomic<bool>* stop);

  ServiceLink& link_;
  Outbox& outbox_;
  DataSetOptions options_;
  DataCache cache_;
  std::unique_ptr<ChunkServer> server_;  // before the fetchers, which use it
  std::shared_ptr<const std::string> job_ = std::make_shared<const std::string>();
  std::map<std::string, std::shared_ptr<Fetcher>> fetchers_;  // by digest
};

}  // namespace holdfast::worker
