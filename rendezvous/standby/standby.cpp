#include "rendezvous/standby/standby.h"

#include <utility>

namespace holdfast::rendezvous {

Standby::Standby(StandbyOptions options, const Clock& clock, Open open)
    : reads_(std::move(options.reads), clock, open),
      pull_(options.pull ? std::make_unique<CheckpointPull>(*std::move(options.pull), std::move(open)) : nullptr) {}

void Standby::write(PrometheusText& text) const {
  if (!pull_) return;
  const PullSeen seen = pull_->seen();
  text.family("holdfast_pull_checkpoints", "gauge",
              "Checkpoints that services keep in folders of their own, and how many of them are here.");
  text.sample({{"which", "wanted"}}, static_cast<double>(seen.wanted));
  text.sample({{"which", "here"}}, static_cast<double>(seen.there));
  text.family("holdfast_pull_bytes_total", "counter", "Bytes of checkpoints that were pulled from the service that leads.");
  text.sample(static_cast<double>(seen.pulled_bytes));
  text.family("holdfast_pull_fails", "gauge", "1 where the last look ended with a failure, which the log names.");
  text.sample(seen.problem.empty() ? 0 : 1);
}

void Standby::end_pull() {
  if (pull_) pull_->end();
}

}  // namespace holdfast::rendezvous
