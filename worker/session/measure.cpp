#include "worker/session/measure.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "model/microbatch_time.h"
#include "worker/session/named_weights.h"

namespace holdfast::worker {
namespace {

constexpr double kSeconds = 3;

std::string complaints(const std::vector<rendezvous::FieldError>& errors) {
  std::string all;
  for (const auto& error : errors) all += (all.empty() ? "" : "; ") + error.field + ": " + error.message;
  return all;
}

}  // namespace

tl::expected<std::string, std::string> measure_device(const std::string& fields, const kernels::OpsFactory& make_ops) {
  nlohmann::json json = nlohmann::json::parse(fields, nullptr, false);
  if (!json.is_object()) {
    return tl::unexpected("--measure: " + fields +
                          R"( is no JSON object with fields of a job such as {"model": "tiny", "batch_size": 16})");
  }
  json["train_data_path"] = "not read";
  const auto spec = rendezvous::parse_job_spec(json);
  if (!spec) return tl::unexpected("--measure: " + complaints(spec.error()));
  try {
    const auto ops = make_ops(kernels::dtype_named(spec->dtype).value());
    const model::Recipe recipe{.dropout = spec->dropout, .trains_biases = spec->biases == "on"};
    const auto time = model::time_microbatches(*ops, model_config(*spec), spec->batch_size,
                                               *model::recompute_of(spec->recompute), recipe, kSeconds);
    const auto info = ops->info();
    return nlohmann::json{{"device", info.kind},
                          {"model", info.model},
                          {"memory_bytes", info.memory_bytes},
                          {"batch_size", spec->batch_size},
                          {"microbatch_s", time.seconds},
                          {"passes", time.passes}}
        .dump();
  } catch (const std::exception& error) {
    return tl::unexpected(std::string("--measure: ") + error.what());
  }
}

}  // namespace holdfast::worker
