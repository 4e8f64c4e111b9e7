// A replica: writes texts for the service, which sends it orders and gets what its texts got, token by token.
//
// Promises: an order is carried out once, however often it comes. News of a text reach the service in order, and come again
// until they were taken. Models that the service wants are read beside those that write; one that it does not want any more
// goes when its texts have ended. A model that cannot be read is told of, and tried again. Of a model that is divided it has
// the stage that the service says; as the last stage it writes texts while those before it, at other workers, are there, and
// gives texts back when they are lost.
// Thread: three of its own, beside each model's engine: for orders, for news and for models; of a divided model one for stages.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <vector>

#include "model/data/tokenizer.h"
#include "rendezvous/completions/replica_messages.h"
#include "storage/object_store.h"
#include "worker/link/service_link.h"
#include "worker/replica/order_book.h"
#include "worker/replica/ready_model.h"

namespace holdfast::worker {

struct ReplicaSetup {
  ServiceLink& link;  // outlives the replica
  std::string job;
  rendezvous::JobSpec spec;
  kernels::OpsFactory make_ops;
  MemoryLimit memory = {};
  DataPlaces places;                              // without `stop`: that is the replica's own
  std::unique_ptr<storage::ObjectStore> objects;  // of the job, kept by the service
  std::string host;                               // where other workers reach this one, as StageServer has it
  PortRange ports = {};
};

class Replica {
 public:
  // Reads the model that the service wants now. Once *stop is true it ends soon, with an error.
  static tl::expected<std::unique_ptr<Replica>, std::string> prepare(ReplicaSetup setup, const std::atomic<bool>& stop);
  ~Replica();  // texts under way are dropped: the service has others go on with them
  Replica(const Replica&) = delete;

  // The weights' digest, which all replicas of the job must have alike; of a job that follows another, a constant.
  std::string digest() const;

 private:
  explicit Replica(ReplicaSetup setup);
  void ask_what_is_wanted(const std::atomic<bool>& stop);
  bool is_another_wanted(const std::string& source, const std::atomic<bool>& stop);  // in the next seconds
  int64_t stage() const;                                                             // with the lock held
  std::optional<std::string> missing() const;  // likewise: a model that is wanted, and the next to be read
  tl::expected<std::shared_ptr<ReadyModel>, std::string> read(const std::string& source, const DataPlaces& places);
  tl::expected<void, std::string> read_tokenizer();
  void begin_threads();

  void follow_orders(const std::stop_token& stop);
  rendezvous::ReplicaReport report(int64_t wait_ms) const;  // with the lock held
  void add_load(rendezvous::ReplicaReport& report) const;   // likewise
  void take(const rendezvous::ReplicaOrders& orders);
  void carry_out(const rendezvous::ReplicaOrder& order);
  void bring_tokenizer();
  bool hear(int64_t serial, const std::vector<model::WrittenToken>& tokens, rendezvous::TextOutcome outcome);

  void send_news(const std::stop_token& stop);
  void keep_models(const std::stop_token& stop);
  void read_model(const std::string& source, const std::stop_token& stop);
  void drop_models();
  void look_again();  // wakes the threads for models and stages; with the lock held

  void keep_stages(const std::stop_token& stop);
  void drop_other_stages();
  void follow_earlier_stages();
  void connect(ReadyModel& model, const std::vector<rendezvous::StageAddress>& earlier);

  ReplicaSetup setup_;
  std::string path_;  // "/v1/workers/{id}/texts"
  std::unique_ptr<model::Tokenizer> tokenizer_;
  std::unique_ptr<rendezvous::HttpClient> orders_client_, news_client_;
  Interrupt stopping_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  OrderBook book_;
  std::map<std::string, std::shared_ptr<ReadyModel>> models_;  // by source
  std::vector<std::string> wanted_;
  std::optional<rendezvous::StagePlace> place_;  // of a model that is divided
  struct Unreadable {
    std::string why;
    int64_t tried = 0;  // the number of the last try
  };
  std::map<std::string, Unreadable> unreadable_;  // by source
  int64_t tries_ = 0;
  struct Connecting {
    std::vector<rendezvous::StageAddress> to;  // as it was tried last
    std::chrono::steady_clock::time_point again = {};
    StagesRefused why_not;
    int failures = 0;  // in a row
  };
  std::map<std::string, Connecting> connecting_;  // by source
  // The addresses of stages that this one could not work with twice in a row, and until when it says so: others take their
  // place, and where these cannot be reached either it is not one after the other again and again.
  std::map<std::string, std::chrono::steady_clock::time_point> unreached_;
  std::string digest_;                              // of the first model that was read
  int64_t changes_ = 0;                             // that threads look at again
  std::jthread orders_, sender_, keeper_, stages_;  // last: they use all of these
};

}  // namespace holdfast::worker
