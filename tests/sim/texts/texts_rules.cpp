// The rules of texts_world.h, at every news of a text and at every step; those of peace are in texts_world.cpp.
#include <algorithm>

#include "tests/sim/texts/played_text.h"
#include "tests/sim/texts/texts_world.h"
#include "tests/sim/violation.h"

namespace holdfast::sim {
namespace {

using model::WrittenToken;
using rendezvous::ReplicaPool;
using rendezvous::TextOutcome;

constexpr int64_t kHeardOfMs = 30'000;  // a report that is lost comes again before that

}  // namespace

bool TextsWorld::progress(Asked& asked, const std::vector<WrittenToken>& tokens, TextOutcome outcome) {
  if (asked.has_ended) broken("a text is told of after its end");
  for (const WrittenToken& token : tokens) {
    const bool of_prompt = asked.told_of_prompt < prompt_told(asked.prompt);
    const int32_t expected = of_prompt ? asked.prompt.tokens[static_cast<size_t>(++asked.told_of_prompt)]
                                       : played_token(asked.source, asked.prompt, asked.told++);
    if (token.of_prompt != of_prompt || token.token.id != expected)
      broken("token {} of a text is {}, and it is {} that its model writes alone", asked.told, token.token.id, expected);
  }
  const int64_t length = played_length(asked.source, asked.prompt);
  if (asked.told > length) broken("a text of {} tokens has {}", length, asked.told);
  if (outcome == TextOutcome::kStop || outcome == TextOutcome::kLength) {
    if (asked.told != length || outcome != played_end(asked.source, asked.prompt))
      broken("a text of {} tokens ends after {}", length, asked.told);
  }
  if (outcome == TextOutcome::kTimedOut && now_ms_ <= asked.deadline) broken("a text timed out before its time was over");
  if (outcome == TextOutcome::kLost) check_lost(asked);
  asked.has_ended = outcome != TextOutcome::kGoesOn || asked.told >= asked.gives_up_after;
  return !asked.has_ended || outcome != TextOutcome::kGoesOn;
}

// A replica, or all workers of a group, that has the model, and that the service has heard say so.
void TextsWorld::check_lost(const Asked& asked) const {
  const auto has = [&](const std::string& name) {
    const TextReplica& replica = replica_of(name);
    const auto cut = cut_until_.find(name);
    const bool is_well = replica.is_ready() && (cut == cut_until_.end() || now_ms_ >= cut->second);
    return is_well && replica.holds(asked.source) && now_ms_ - replica.held_since(asked.source) > kHeardOfMs;
  };
  for (const std::string& name : service_->replicas.texts().replicas()) {
    const std::vector<std::string> group = service_->replicas.group_of(name);
    if (!group.empty() && std::ranges::all_of(group, has)) broken("a text was called lost, and {} has its model", name);
  }
}

void TextsWorld::judge() {
  int64_t under_way = 0;
  for (const auto& asked : asked_) {
    under_way += asked->has_ended ? 0 : 1;
    if (!asked->has_ended && now_ms_ > asked->deadline) broken("a text goes on after its time is over");
  }
  const ReplicaPool::Load load = service_->replicas.texts().load();
  if (load.waiting < 0 || load.writing < 0 || load.waiting + load.writing != under_way)
    broken("{} texts are under way, and {} are written and {} wait", under_way, load.writing, load.waiting);
  for (const std::string& name : service_->replicas.texts().replicas()) {
    if (service_->replicas.texts().texts_of(name) > TextReplica::kTextsMax) broken("{} has more texts than it writes", name);
  }
}

}  // namespace holdfast::sim
