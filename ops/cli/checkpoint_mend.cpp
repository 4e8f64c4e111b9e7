// `holdfast ckpt mend`: a job's checkpoints, whole in both of their places.
#include <fmt/format.h>

#include <algorithm>

#include "ops/cli/checkpoint_place.h"
#include "ops/cli/command/api.h"
#include "rendezvous/text/plural.h"
#include "storage/copies/copying.h"

namespace holdfast::ops {

void mend_checkpoints(const Options& options, const std::string& named) {
  CheckpointPlace place = find_checkpoints(options, named);
  if (!place.first || !place.second) {
    throw Failure{kBadInput, fmt::format("{}: to mend takes both places of a job with a checkpoint_copy, and only {} is here",
                                         named, place.store->describe())};
  }
  std::vector<int64_t> steps = steps_of(place);
  if (place.step) steps = {*place.step};
  Json all = Json::array();
  bool good = true;
  for (const int64_t step : steps) {
    const auto mending = storage::mend_checkpoint(*place.first, *place.second, step);
    if (!mending && mending.error().code == storage::Error::Code::kUnavailable) throw failure_of(mending.error());
    const bool whole = mending && mending->lost.empty();
    good = good && whole;
    Json row{{"step", step}, {"ok", whole}};
    if (!mending) row["error"] = mending.error().message;
    row["mended"] = mending ? mending->mended : std::vector<std::string>{};
    row["lost"] = mending ? mending->lost : std::vector<std::string>{};
    all.push_back(row);
    if (options.json) continue;
    if (!mending) {
      fmt::print("step {}: LOST: {}\n", step, mending.error().message);
      continue;
    }
    for (const std::string& object : mending->mended) fmt::print("step {}: mended {}\n", step, object);
    for (const std::string& object : mending->lost) fmt::print("step {}: LOST: {}\n", step, object);
    if (whole)
      fmt::print("step {}: whole in both places, {} mended\n", step, rendezvous::counted(mending->mended.size(), "object"));
  }
  if (options.json) print_json({{"checkpoints", all}});
  if (!good) throw Failure{kJobFailed, ""};
}

}  // namespace holdfast::ops
