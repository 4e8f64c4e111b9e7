#include "worker/serving/stages/stage_server.h"

#include <span>
#include <utility>

#include "rendezvous/text/random_hex.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::worker {
namespace {

constexpr size_t kKeyBytes = 16;

rendezvous::StageAddress with_a_new_key() {
  return {.url = "", .key = rendezvous::random_hex(kKeyBytes)};
}

}  // namespace

StageServer::StageServer(model::Decoder& decoder, StageFacts facts, StageApi::OnFailure on_failure)
    : address_(with_a_new_key()),
      api_(decoder, std::move(facts), {rendezvous::sha256_hex(std::as_bytes(std::span(address_.key)))}, std::move(on_failure)) {
}

tl::expected<std::unique_ptr<StageServer>, std::string> StageServer::start(model::Decoder& decoder, StageFacts facts,
                                                                           const std::string& host, PortRange ports,
                                                                           StageApi::OnFailure on_failure) {
  std::unique_ptr<StageServer> stage(new StageServer(decoder, std::move(facts), std::move(on_failure)));
  rendezvous::HttpServerOptions options;
  options.max_body_bytes = kPassBytesMax;
  auto started = start_peer_server(host, ports, options, [&](const rendezvous::HttpServerOptions& with_place) {
    return rendezvous::HttpServer::start(with_place,
                                         [api = &stage->api_](const rendezvous::HttpRequest& head) { return api->gate(head); });
  });
  if (!started) return tl::unexpected("other workers cannot reach the layers that are here: " + started.error());
  stage->server_ = *std::move(started);
  stage->address_.url = "https://" + stage->server_.address;
  stage->address_.pin = stage->server_.pin;
  return stage;
}

}  // namespace holdfast::worker
