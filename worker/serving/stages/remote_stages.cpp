#include "worker/serving/stages/remote_stages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/text/random_hex.h"

namespace holdfast::worker {
namespace {

constexpr std::chrono::seconds kQuestionTime{3}, kPassTime{60};

}  // namespace

RemoteStages::RemoteStages(Needs needs) : needs_(std::move(needs)), driver_(rendezvous::random_hex(8)) {}

tl::expected<std::unique_ptr<RemoteStages>, StagesRefused> RemoteStages::connect(
    const std::vector<rendezvous::StageAddress>& stages, Needs needs, const std::atomic<bool>* stop) {
  std::unique_ptr<RemoteStages> remote(new RemoteStages(std::move(needs)));
  for (const rendezvous::StageAddress& stage : stages) {
    if (auto added = remote->add(stage, stop); !added)
      return tl::unexpected(StagesRefused{fmt::format("stage {}: {}", stage.url, added.error()), stage.url});
  }
  if (remote->end_layer_ >= remote->needs_.config.n_layer) {
    return tl::unexpected(
        StagesRefused{fmt::format("the stages have all {} layers, and the last one is to be here: leave one to this server",
                                  remote->needs_.config.n_layer)});
  }
  return remote;
}

tl::expected<void, std::string> RemoteStages::add(const rendezvous::StageAddress& address, const std::atomic<bool>* stop) {
  auto client = std::make_unique<rendezvous::HttpClient>(address.url, address.key);
  if (!address.pin.empty()) client->trust_only(address.pin);
  client->set_stop(stop);
  client->set_header("Holdfast-Driver", driver_);
  const auto reply = client->request("GET", "/v1/stage", {}, "application/json", kQuestionTime);
  if (!reply) return tl::unexpected(reply.error().message());
  const auto json = nlohmann::json::parse(reply->body, nullptr, false);
  const auto number = [&](const char* name) { return json.is_object() ? json.value(name, int64_t{-1}) : -1; };
  const std::string fingerprint = json.is_object() ? json.value("fingerprint", "") : "";
  if (fingerprint != needs_.fingerprint) {
    return tl::unexpected(
        fmt::format("it has the model \"{}\", expected \"{}\": start both with the same --from and --precision, "
                    "on machines that compute the same bits",
                    fingerprint, needs_.fingerprint));
  }
  if (number("first_layer") != end_layer_)
    return tl::unexpected(
        fmt::format("its first layer is {}, expected {}: name the stages in the order of their layers, without a "
                    "gap",
                    number("first_layer"), end_layer_));
  if (number("rows") < needs_.limits.rows || number("pages") < needs_.limits.pages) {
    return tl::unexpected(
        fmt::format("it takes {} rows and has {} pages, expected at least {} and {}: start it with the same "
                    "--batch_tokens and --cache_mib",
                    number("rows"), number("pages"), needs_.limits.rows, needs_.limits.pages));
  }
  end_layer_ = number("end_layer");
  stages_.push_back(std::move(client));
  return {};
}

model::BetweenLayers RemoteStages::feed(std::span<const model::Feed> feeds) {
  int64_t rows = 0;
  for (const model::Feed& feed : feeds) rows += static_cast<int64_t>(feed.tokens.size());
  ++passes_;
  for (size_t i = 0; i < stages_.size(); ++i) {
    rendezvous::HttpClient& stage = *stages_[i];
    stage.set_header("Holdfast-Pass", std::to_string(passes_));
    const auto from = i == 0 ? std::nullopt : std::optional(rows_.between());
    const auto reply = stage.request("POST", "/v1/stage/pass", bytes_of(feeds, from), "application/octet-stream", kPassTime);
    if (!reply) throw StageLost(fmt::format("a stage is lost: {}", reply.error().message()));
    auto received =
        read_rows(reply->body, rows * needs_.config.n_embd, static_cast<size_t>(rows) * needs_.branch_bytes_of_a_row);
    if (!received) throw StageLost(fmt::format("a stage is lost: {}: {}", stage.base_url(), received.error()));
    rows_ = *std::move(received);
  }
  return rows_.between();
}

model::BetweenLayers ChangingStages::feed(std::span<const model::Feed> feeds) {
  if (stages_ == nullptr) throw StageLost("the stages before this one are not there");
  return stages_->feed(feeds);
}

}  // namespace holdfast::worker
