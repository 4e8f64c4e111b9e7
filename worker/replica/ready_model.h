// A model that a replica has ready to write texts with, or one stage of it: read from its source, with the engine that runs it.
//
// Promises: of a divided model only this stage's layers are kept. The last stage writes texts once it is connected to those
// before it, until one of them is lost. Errors are sentences for the user: what named_weights says, a device that writes no
// texts, memory that is not there, stages that do not fit. Thread: connect() and disconnect() on one, the others on any; the
// engine and a stage's server have their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/decode/decoder.h"
#include "rendezvous/completions/replica_messages.h"
#include "worker/replica/replica_memory.h"
#include "worker/serving/stages/remote_stages.h"
#include "worker/serving/stages/stage_server.h"
#include "worker/serving/text_server.h"
#include "worker/session/memory_limit.h"
#include "worker/session/named_weights.h"
#include "worker/session/session.h"

namespace holdfast::worker {

// The weights of a stage and what reading them takes, as replica_memory() counts them: `weights` are those of its decoder's
// memory_use() on `ops`, to a few percent. `ops` is asked with a few rows of a matrix what it keeps of them, as that depends on
// its products' instructions and types: a weight of float16 takes 2 bytes or, on matrix units, 6. `ops` makes decode ops.
ReplicaMemory weights_memory(const model::Gpt2Config& config, model::LayerRange layers, kernels::DeviceOps& ops,
                             kernels::WeightForm form);

class ReadyModel {
 public:
  static constexpr int64_t kTextsMax = 128;  // written at once

  struct Setup {
    rendezvous::JobSpec spec;
    kernels::OpsFactory make_ops;
    MemoryLimit memory = {};
    std::string host;  // where this worker is reached, as StageServer has it
    PortRange ports = {};
    // On an engine's or a stage's thread. Lost: stages before this one, so that no text is written until connect(). Failed: the
    // device here, so that this process cannot be trusted to go on.
    std::function<void()> on_lost = nullptr;
    std::function<void(const std::string& why)> on_failed = nullptr;
  };
  // `source`: as JobSpec::init_from; the other fields of the spec say how it is computed. `stage`: of spec.stages.
  static tl::expected<std::shared_ptr<ReadyModel>, std::string> read(const std::string& source, int64_t stage,
                                                                     const Setup& setup, const DataPlaces& places);
  ~ReadyModel();
  ReadyModel(const ReadyModel&) = delete;

  const rendezvous::HeldModel& held() const { return held_; }
  const std::string& digest() const { return digest_; }  // of the whole model's weights
  int64_t stage() const { return stage_; }
  bool is_ready() const;  // to write texts, or to take passes

  std::optional<rendezvous::TextRefused> submit(rendezvous::TextOrder order);
  model::TextEngine::Load load() const;  // of the engine; zeros where there is none now

  // Of a last stage. Texts under way are dropped without a word, by both.
  tl::expected<void, StagesRefused> connect(const std::vector<rendezvous::StageAddress>& earlier);
  void disconnect();
  bool is_connected_to(const std::vector<rendezvous::StageAddress>& earlier) const;
  void give_up();  // connect() ends soon, with an error

 private:
  ReadyModel(int64_t stage, const Setup& setup) : stage_(stage), on_lost_(setup.on_lost), on_failed_(setup.on_failed) {}
  void lose(const std::exception& failure);

  const int64_t stage_;
  const std::function<void()> on_lost_;
  const std::function<void(const std::string&)> on_failed_;
  std::atomic<bool> is_leaving_ = false;  // ends passes through stages before this one
  rendezvous::HeldModel held_;
  std::string digest_;
  std::unique_ptr<kernels::DeviceOps> ops_;
  ChangingStages earlier_;
  model::LayerRange layers_;
  RemoteStages::Needs needs_;
  std::unique_ptr<model::Decoder> decoder_;
  std::unique_ptr<StageServer> server_;  // of a stage but the last
  mutable std::mutex mutex_;             // guards what follows
  bool is_given_up_ = false, is_lost_ = false;
  std::vector<rendezvous::StageAddress> connected_to_;
  std::unique_ptr<TextServer> texts_;  // last: it uses the others
};

}  // namespace holdfast::worker
