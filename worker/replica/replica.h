// A replica: writes texts for the service, which sends it orders and gets what its texts got, token by token.
//
// Promises: an order is carried out once, however often it comes. News of a text reach the service in order, and come again
// until they were taken. Models that the service wants are read beside those that write; one that it does not want any more
// goes when its texts have ended. A model that cannot be read is told of, and tried again.
// Thread: three of its own, beside each model's engine: for orders, for news and for models.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
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
  DataPlaces places;                              // without `stop`: that is the replica's own
  std::unique_ptr<storage::ObjectStore> objects;  // of the job, kept by the service
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
  std::vector<std::string> ask_what_is_wanted(const std::atomic<bool>& stop);
  tl::expected<void, std::string> read_tokenizer();
  void begin_threads();

  void follow_orders(const std::stop_token& stop);
  rendezvous::ReplicaReport report(int64_t wait_ms) const;  // with the lock held
  void take(const rendezvous::ReplicaOrders& orders);
  void carry_out(const rendezvous::ReplicaOrder& order);
  void bring_tokenizer();
  bool hear(int64_t serial, const std::vector<model::WrittenToken>& tokens, rendezvous::TextOutcome outcome);

  void send_news(const std::stop_token& stop);
  void keep_models(const std::stop_token& stop);
  void read_model(const std::string& source, const std::stop_token& stop);
  void drop_models();

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
  std::map<std::string, std::string> unreadable_;  // source -> why
  std::jthread orders_, sender_, keeper_;          // last: they use all of these
};

}  // namespace holdfast::worker
