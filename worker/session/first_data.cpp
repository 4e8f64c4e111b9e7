#include "worker/session/first_data.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace holdfast::worker {
namespace {

constexpr int64_t kStepsAhead = 2 * kDataExpectedEvery;
constexpr size_t kRangesMax = 4096;  // of one file

using Ranges = std::vector<std::vector<TokenRange>>;  // by training file

// The ranges that the steps from `step` on read, in order.
Ranges ranges_of(const Session& session, int64_t step, int64_t steps) {
  const model::BatchShape& shape = session.training.shape();
  Ranges ranges(session.data.training.size());
  size_t longest = 0;
  for (int64_t s = step; s < step + steps && longest < kRangesMax; ++s) {
    for (int64_t microbatch = 0; microbatch < shape.microbatches; ++microbatch) {
      for (const model::TrainingWindow& window : session.training.windows_of(s, microbatch)) {
        ranges[window.source].push_back({static_cast<int64_t>(window.first_token), shape.block_size + 1});
        longest = std::max(longest, ranges[window.source].size());
      }
    }
  }
  return ranges;
}

bool is_fetched(const Session& session) {
  return std::ranges::any_of(session.data.training, [](const TrainingFile& file) { return file.arrival != nullptr; });
}

tl::expected<void, std::string> bring(FileArrival& arrival, const std::vector<TokenRange>& ranges) {
  for (const TokenRange& range : ranges) {
    const auto here = arrival.bring(range);
    if (!here) return tl::unexpected(here.error());
    if (!*here) return tl::unexpected<std::string>("the wait for data was ended");
  }
  return {};
}

// Evaluations go through the file from its beginning.
std::vector<TokenRange> evaluated(const Session& session) {
  const int64_t all = static_cast<int64_t>(session.data.validation->tokens().size());
  const int64_t wanted = session.spec.eval_microbatches * session.training.shape().tokens() + 1;
  return {{0, std::min(all, wanted)}};
}

}  // namespace

void FileArrival::wait_for(size_t first_token, size_t count) {
  const auto here = bring({static_cast<int64_t>(first_token), static_cast<int64_t>(count)});
  if (!here) throw std::runtime_error(here.error());
  if (!*here) throw model::Interrupted();
}

void expect_data(const Session& session, int64_t step) {
  if (!is_fetched(session)) return;
  const Ranges ranges = ranges_of(session, step, kStepsAhead);
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (FileArrival* arrival = session.data.training[i].arrival.get()) arrival->expect(ranges[i]);
  }
}

tl::expected<void, std::string> await_first_data(const Session& session) {
  expect_data(session, 0);
  const bool evaluates = session.spec.eval_every > 0 && session.data.validation_arrival != nullptr;
  if (evaluates) session.data.validation_arrival->expect(evaluated(session));
  if (is_fetched(session)) {
    const Ranges first = ranges_of(session, 0, 1);
    for (size_t i = 0; i < first.size(); ++i) {
      FileArrival* const arrival = session.data.training[i].arrival.get();
      if (arrival == nullptr) continue;
      if (auto here = bring(*arrival, first[i]); !here) return here;
    }
  }
  return evaluates ? bring(*session.data.validation_arrival, evaluated(session)) : tl::expected<void, std::string>();
}

}  // namespace holdfast::worker
