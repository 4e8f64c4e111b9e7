// The layers of a divided model that other programs have (`holdfast serve-stage`, workers of a job that serves), one stage
// after the other.
//
// Promises: a pass is the same as through these layers here, to the last bit: connect() refuses stages of another model,
// precision or numerics. A stage that is lost is lost for good, for it had keys and values of every text: feed() throws then.
// Thread: the decoder's.
#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "model/decode/decoder.h"
#include "rendezvous/client/http_client.h"
#include "rendezvous/completions/replica_messages.h"
#include "worker/serving/stages/pass_bytes.h"

namespace holdfast::worker {

class StageLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StagesRefused {
  std::string why;
  std::string url = {};  // of the one that is to blame; "": none is
};

class RemoteStages final : public model::EarlierLayers {
 public:
  struct Needs {
    std::string fingerprint;
    model::Gpt2Config config;
    model::Decoder::Limits limits;
    size_t branch_bytes_of_a_row = 0;
  };
  // `stages`: in the order of their layers, the first of which has the model's first. Once *stop is true, passes end soon, as
  // if a stage were lost; it outlives this. nullptr: they do not.
  static tl::expected<std::unique_ptr<RemoteStages>, StagesRefused> connect(const std::vector<rendezvous::StageAddress>& stages,
                                                                            Needs needs,
                                                                            const std::atomic<bool>* stop = nullptr);
  int64_t end_layer() const { return end_layer_; }  // the stages have those before it
  model::BetweenLayers feed(std::span<const model::Feed> feeds) override;

 private:
  explicit RemoteStages(Needs needs);
  tl::expected<void, std::string> add(const rendezvous::StageAddress& address, const std::atomic<bool>* stop);

  const Needs needs_;
  const std::string driver_;
  int64_t end_layer_ = 0, passes_ = 0;
  std::vector<std::unique_ptr<rendezvous::HttpClient>> stages_;
  ReceivedRows rows_;
};

// The stages of a decoder that stays when they are lost and others take their place. Thread: the decoder's.
class ChangingStages final : public model::EarlierLayers {
 public:
  // Between passes. The decoder's keys and values count no more: they go with those of the stages before.
  void set(std::unique_ptr<RemoteStages> stages) { stages_ = std::move(stages); }
  model::BetweenLayers feed(std::span<const model::Feed> feeds) override;

 private:
  std::unique_ptr<RemoteStages> stages_;
};

}  // namespace holdfast::worker
