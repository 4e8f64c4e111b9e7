#include "rendezvous/api/profiles/view.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

Json show_rank(int64_t number, const Profile::Rank& rank) {
  const char* part = rank.whole ? "here" : rank.missing.empty() ? "awaited" : "missing";
  return {{"rank", number},
          {"worker", rank.member.worker},
          {"part", part},
          {"reason", rank.whole ? "" : rank.missing},
          {"spans", rank.spans},
          {"dropped_spans", 0},
          {"clock_offset_us", nullptr},
          {"clock_error_us", nullptr}};
}

void add_merged(Json& shown, const ProfiledRank& rank) {
  shown["dropped_spans"] = rank.dropped;
  if (rank.missing.empty()) shown["reason"] = rank.ended;
  if (!rank.aligned) return;
  shown["clock_offset_us"] = static_cast<double>(rank.clock.offset_ns) / 1000;
  shown["clock_error_us"] = static_cast<double>(rank.clock.error_ns) / 1000;
}

Json show_cost(const ProfileCost& cost) {
  Json ranks = Json::array();
  for (const RankSeconds& rank : cost.ranks) ranks.push_back({{"rank", rank.rank}, {"seconds", rank.seconds}});
  return {{"name", cost.name},   {"kind", span_kind_name(cost.kind)}, {"thread", cost.thread}, {"seconds", cost.seconds},
          {"share", cost.share}, {"ranks", std::move(ranks)}};
}

Json show_result(const MergedProfile& merged) {
  Json phases = Json::array(), costs = Json::array();
  for (const ProfilePhase& phase : merged.phases)
    phases.push_back({{"name", phase.name}, {"seconds", phase.seconds}, {"share", phase.share}});
  for (size_t i = 0; i < std::min(kCostsShown, merged.costs.size()); ++i) costs.push_back(show_cost(merged.costs[i]));
  return {{"first_step", merged.first_step}, {"last_step", merged.last_step}, {"steps", merged.steps},
          {"step_s", merged.step_s},         {"phases", std::move(phases)},   {"costs", std::move(costs)}};
}

}  // namespace

Json show_profile(const Profile& profile) {
  Json ranks = Json::array();
  for (const Profile::Rank& rank : profile.ranks) ranks.push_back(show_rank(static_cast<int64_t>(ranks.size()), rank));
  if (profile.merged != nullptr) {
    for (const ProfiledRank& rank : profile.merged->ranks) add_merged(ranks[static_cast<size_t>(rank.rank)], rank);
  }
  const bool done = profile.state == Profile::State::kDone;
  return {{"id", profile.id},
          {"job", profile.job},
          {"state", profile_state_name(profile.state)},
          {"reason", profile.reason},
          {"generation", profile.generation},
          {"from_step", profile.order.from_step},
          {"steps", profile.order.steps},
          {"ranks", std::move(ranks)},
          {"result", done ? show_result(*profile.merged) : Json(nullptr)}};
}

}  // namespace holdfast::rendezvous
