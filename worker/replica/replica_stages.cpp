// A replica's thread for the stages of models that are divided among several workers.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "worker/profile/recorder.h"
#include "worker/replica/replica.h"

namespace holdfast::worker {
namespace {

constexpr std::chrono::seconds kLookForStages{1};   // that could not be reached, or were lost
constexpr std::chrono::minutes kSaysUnreached{10};  // since it was tried last

}  // namespace

void Replica::keep_stages(const std::stop_token& stop) {
  name_thread("stages");
  for (int64_t seen = 0; !stop.stop_requested();) {
    drop_other_stages();
    follow_earlier_stages();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, kLookForStages, [&] { return changes_ != seen; });
    seen = changes_;
  }
}

// The service has given this worker another stage, so that there may be more whole models.
void Replica::drop_other_stages() {
  std::vector<std::shared_ptr<ReadyModel>> dropped;  // their engines and servers end without the lock
  const std::lock_guard lock(mutex_);
  for (auto at = models_.begin(); at != models_.end();) {
    if (at->second->stage() == stage()) {
      ++at;
      continue;
    }
    spdlog::info("gives up stage {} of {}: it is to be stage {}", at->second->stage(), at->first, stage());
    book_.give_back_all(at->first);
    dropped.push_back(std::move(at->second));
    at = models_.erase(at);
    look_again();
  }
}

void Replica::follow_earlier_stages() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::pair<std::shared_ptr<ReadyModel>, std::vector<rendezvous::StageAddress>>> changed;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(unreached_, [&](const auto& entry) { return entry.second < now; });
    std::erase_if(connecting_, [this](const auto& entry) { return !models_.contains(entry.first); });
    if (!place_ || place_->stage != setup_.spec.stages - 1) return;
    for (const auto& [source, model] : models_) {
      const auto known = std::ranges::find(place_->earlier, source, &rendezvous::StagePlace::Earlier::source);
      const auto earlier = known == place_->earlier.end() ? std::vector<rendezvous::StageAddress>() : known->stages;
      if (earlier.empty()) connecting_.erase(source);  // nobody is to be reached
      if (model->stage() != place_->stage || model->is_connected_to(earlier)) continue;
      Connecting& connecting = connecting_[source];
      if (connecting.to == earlier && now < connecting.again) continue;
      if (connecting.to != earlier) connecting.failures = 0;
      connecting.to = earlier;
      connecting.again = now + kLookForStages;
      changed.emplace_back(model, earlier);
    }
  }
  for (const auto& [model, earlier] : changed) connect(*model, earlier);
}

// The stages before take the place of those that were there. Texts go on with another replica, or here, from what was told.
void Replica::connect(ReadyModel& model, const std::vector<rendezvous::StageAddress>& earlier) {
  const std::string& source = model.held().source;
  model.disconnect();
  {
    const std::lock_guard lock(mutex_);
    book_.give_back_all(source);
    changed_.notify_all();  // there are news
  }
  const auto connected = earlier.empty() ? tl::expected<void, StagesRefused>() : model.connect(earlier);
  const std::lock_guard lock(mutex_);
  const StagesRefused refused = connected ? StagesRefused{} : connected.error();
  Connecting& connecting = connecting_[source];
  const bool is_new = std::exchange(connecting.why_not, refused).why != refused.why;
  connecting.failures = connected ? 0 : connecting.failures + 1;
  if (!refused.url.empty() && connecting.failures > 1)  // once may be a slow moment
    unreached_[refused.url] = std::chrono::steady_clock::now() + kSaysUnreached;
  if (connected) {
    for (const rendezvous::StageAddress& stage : earlier) unreached_.erase(stage.url);
  }
  if (!connected && is_new) spdlog::warn("{} cannot be served now, it is tried again: {}", source, refused.why);
  if (connected && !earlier.empty()) spdlog::info("has all stages of {}", source);
  orders_client_->cancel();  // its next report says so
}

}  // namespace holdfast::worker
