#include "worker/serving/served_models.h"

#include <utility>

namespace holdfast::worker {
namespace {

using Load = ServedModels::Load;

bool is_idle(const Load& load) {
  return load.writing + load.reading + load.waiting == 0;
}

// Texts and pages are those of models that are there; counts are of all that ever were.
void count_past(Load& sum, const Load& load) {
  sum.prompt_tokens += load.prompt_tokens;
  sum.prompt_tokens_found += load.prompt_tokens_found;
  sum.written_tokens += load.written_tokens;
  sum.passes += load.passes;
  sum.began_again += load.began_again;
}

void count_all(Load& sum, const Load& load) {
  count_past(sum, load);
  sum.writing += load.writing;
  sum.reading += load.reading;
  sum.waiting += load.waiting;
  sum.pages += load.pages;
  sum.pages_held += load.pages_held;
  sum.pages_kept += load.pages_kept;
}

}  // namespace

ServedModels::ServedModels(ServedModel first) : now_(std::make_shared<const ServedModel>(std::move(first))) {}

std::shared_ptr<const ServedModel> ServedModels::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void ServedModels::replace(ServedModel next) {
  auto present = std::make_shared<const ServedModel>(std::move(next));
  const std::lock_guard lock(mutex_);
  before_.push_back(std::exchange(now_, std::move(present)));
  ++replaced_;
}

// A request that has the model in its hands, and has perhaps not asked it yet, keeps it, too.
size_t ServedModels::forget_finished() {
  std::vector<std::shared_ptr<const ServedModel>> finished;  // their engines end without the lock
  const std::lock_guard lock(mutex_);
  for (auto at = before_.begin(); at != before_.end();) {
    const bool is_in_hand = at->use_count() > 1;  // first: who had it may give it a text, and then let it go
    const Load load = (*at)->texts->load();
    if (is_in_hand || !is_idle(load)) {
      ++at;
      continue;
    }
    count_past(of_forgotten_, load);
    finished.push_back(std::move(*at));
    at = before_.erase(at);
  }
  return before_.size();
}

void ServedModels::count(Load& sum) const {
  const std::lock_guard lock(mutex_);
  count_past(sum, of_forgotten_);
  count_all(sum, now_->texts->load());
  for (const auto& model : before_) count_all(sum, model->texts->load());
}

int64_t ServedModels::replaced() const {
  const std::lock_guard lock(mutex_);
  return replaced_;
}

}  // namespace holdfast::worker
