// A model that a replica has ready to write texts with: read from its source, with the engine that runs it.
//
// Errors are sentences for the user: what named_weights says, a device that writes no texts, memory that is not there.
// Thread: any, one at a time; the engine has its own.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "model/decode/decoder.h"
#include "rendezvous/completions/replica_messages.h"
#include "worker/serving/text_server.h"
#include "worker/session/named_weights.h"
#include "worker/session/session.h"

namespace holdfast::worker {

class ReadyModel {
 public:
  static constexpr int64_t kTextsMax = 128;  // written at once

  // `source`: as JobSpec::init_from; the other fields of `spec` say how it is computed.
  static tl::expected<std::shared_ptr<ReadyModel>, std::string> read(const std::string& source, const rendezvous::JobSpec& spec,
                                                                     const kernels::OpsFactory& make_ops,
                                                                     const DataPlaces& places);

  const rendezvous::HeldModel& held() const { return held_; }
  const std::string& digest() const { return digest_; }  // of its weights
  TextServer& texts() const { return *texts_; }

 private:
  ReadyModel() = default;

  rendezvous::HeldModel held_;
  std::string digest_;
  std::unique_ptr<kernels::DeviceOps> ops_;
  std::unique_ptr<model::Decoder> decoder_;
  std::unique_ptr<TextServer> texts_;  // last: it uses the others
};

}  // namespace holdfast::worker
