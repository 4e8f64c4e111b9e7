// A stage of a worker, for another worker: a StageApi over HTTPS (peer_server.h), with a key of its own.
//
// Promises: only who has the key may send passes. Thread: any; the decoder belongs to the server's while it lives.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/completions/replica_messages.h"
#include "worker/peer_server/peer_server.h"
#include "worker/serving/stages/stage_api.h"

namespace holdfast::worker {

// The bytes of a pass of many rows, each with a table of all pages of a text.
inline constexpr size_t kPassBytesMax = size_t{64} << 20;

class StageServer {
 public:
  // Listens as start_peer_server does. The decoder outlives it. The error is a sentence.
  static tl::expected<std::unique_ptr<StageServer>, std::string> start(model::Decoder& decoder, StageFacts facts,
                                                                       const std::string& host, PortRange ports,
                                                                       StageApi::OnFailure on_failure = nullptr);
  // How a stage after it reaches it.
  const rendezvous::StageAddress& address() const { return address_; }

 private:
  StageServer(model::Decoder& decoder, StageFacts facts, StageApi::OnFailure on_failure);

  rendezvous::StageAddress address_;
  StageApi api_;
  PeerServer server_;  // last: its threads use the others
};

}  // namespace holdfast::worker
