#include "worker/session/session.h"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/protocol/wire_types.h"
#include "worker/profile/recording_ops.h"
#include "worker/session/first_data.h"
#include "worker/session/named_weights.h"

namespace holdfast::worker {
namespace {

using rendezvous::JobSpec;

std::string unsupported(const JobSpec& spec) {
  if (!kernels::dtype_named(spec.dtype))
    return "dtype " + spec.dtype + " is not one that this worker computes in: choose float32, bfloat16 or float16";
  if (!wire_type_of(spec.reduction, spec.wire_dtype)) {
    return "wire_dtype " + spec.wire_dtype + " is not one that this worker sends with --reduction " + spec.reduction +
           ": exact goes as " + rendezvous::wire_types_in_words("exact") + ", float as " +
           rendezvous::wire_types_in_words("float");
  }
  if (!model::recompute_of(spec.recompute))
    return "recompute " + spec.recompute + " is not one that this worker knows: choose none, attention or block";
  return {};
}

// Text that cannot be read has none; opening it says so.
std::vector<rendezvous::DataSource> sources_of(const JobSpec& spec) {
  auto sources = rendezvous::parse_training_sources(spec.train_data_path).value_or(std::vector<rendezvous::DataSource>());
  if (const auto validation = rendezvous::parse_validation_source(spec.valid_data_path)) sources.push_back(*validation);
  return sources;
}

model::TrainingData training_data(const JobSpec& spec, const DataFiles& files) {
  std::vector<model::TrainingSource> sources;
  for (const TrainingFile& training : files.training)
    sources.push_back({training.file->tokens(), training.share, training.arrival.get()});
  return {std::move(sources), static_cast<uint64_t>(spec.seed),
          model::BatchShape{.batch_size = spec.batch_size, .block_size = spec.block_size, .microbatches = spec.microbatches()}};
}

// Of a state that is divided nobody owns anything before the ranks have met.
void begin_state(Session& session) {
  const auto owns = session.is_divided() ? model::TrainState::Owns::kNothing : model::TrainState::Owns::kAll;
  session.state = std::make_unique<model::TrainState>(*session.model, *session.ops, owns, session.host_ops.get());
  session.sound.assign(session.state->owned().size(), false);
  session.copied = session.sound;
}

// The first call of a shape allocates a GPU's scratch memory, and its library chooses kernels then; the first reduction takes
// host memory that the GPU reaches. Doing it now lets missing memory refuse the job, instead of failing its first step. The
// results are of no use: the parameters have no values yet. A job of one node may never have a reduction.
void rehearse(Session& session) {
  if (session.scattered) {
    session.scattered->prepare_host_memory();
  } else if (session.spec.nodes > 1) {
    session.gradients->mean().prepare_host_memory();
  }
  const std::vector<int32_t> tokens(static_cast<size_t>(session.spec.batch_size * session.spec.block_size));
  session.model->train_microbatch(tokens, tokens);
}

tl::expected<void, std::string> open_initial(Session& session, const DataPlaces& places) {
  const JobSpec& spec = session.spec;
  if (spec.init_from.empty()) {
    session.initial = std::make_unique<model::SeededValues>(model_config(spec), static_cast<uint64_t>(spec.seed));
    return {};
  }
  auto weights = named_weights(spec.init_from, model_config(spec), places);
  if (!weights) return tl::unexpected("init_from: " + weights.error());
  if (spec.biases == "off") {
    if (const auto none = model::expect_no_biases(*weights->values, model::ParameterTable(model_config(spec))); !none)
      return tl::unexpected("init_from: " + none.error());
  }
  session.initial = std::move(weights->values);
  session.init_digest = std::move(weights->digest);
  return {};
}

std::unique_ptr<LocalSteps> make_local_steps(const Session& session) {
  const JobSpec& spec = session.spec;
  if (spec.sync_every == 1) return nullptr;
  const LocalStepsConfig local{optimizer_config(spec), spec.sync_every, spec.microbatches_per_dealt_unit() / spec.sync_every};
  return std::make_unique<LocalSteps>(*session.ops, *session.model, session.training, local);
}

void build_model(Session& session, const kernels::OpsFactory& make_ops, const MemoryLimit& limit) {
  const JobSpec& spec = session.spec;
  session.ops = with_spans(make_ops(*kernels::dtype_named(spec.dtype)));
  if (auto refusal = refusal_for_memory(spec, session.ops->memory_is_host(), limit); !refusal.empty())
    throw std::runtime_error(std::move(refusal));
  const model::Gpt2Config config = model_config(spec);
  model::ModelMemory memory;
  const bool by_layer = spec.divides_parameters();
  if (spec.offload == "optimizer" && !session.ops->memory_is_host())
    session.host_ops = kernels::make_cpu_ops(*kernels::dtype_named(spec.dtype), host_threads(*session.ops, 8));
  if (session.is_divided() && (by_layer || spec.dtype != "float32" || session.host_ops))
    memory.masters = model::Masters::kElsewhere;
  if (by_layer) memory.copies = model::Copies::kByLayer;
  if (spec.divides_gradients()) memory.gradients = model::Gradients::kByRange;
  session.model =
      std::make_unique<model::Gpt2>(config, *session.ops, spec.batch_size, *model::recompute_of(spec.recompute), memory);
  session.model->set_recipe(
      {.dropout = spec.dropout, .seed = static_cast<uint64_t>(spec.seed), .trains_biases = spec.biases == "on"});
  begin_state(session);
  const GradientSetup setup{.ops = *session.ops,
                            .model = *session.model,
                            .data = session.training,
                            .wire = *wire_type_of(spec.reduction, spec.wire_dtype),
                            .dealt_units = spec.dealt_units()};
  if (spec.divides_gradients()) {
    session.scattered = std::make_unique<ScatteredGradients>(setup);
  } else {
    session.gradients = std::make_unique<GradientAccumulator>(setup, make_local_steps(session));
    session.buckets = gradient_buckets(session.model->table(), session.model->gradient_order());
  }
  if (!session.ops->memory_is_host()) rehearse(session);
}

}  // namespace

model::OptimizerConfig optimizer_config(const JobSpec& spec) {
  return {.learning_rate = spec.learning_rate,
          .min_lr = spec.min_lr,
          .warmup_steps = spec.warmup_steps * spec.sync_every,
          .total_steps = spec.total_steps * spec.sync_every,
          .schedule = model::schedule_named(spec.lr_schedule).value(),
          .decay_steps = spec.decay_steps * spec.sync_every,
          .schedule_start = spec.schedule_start * spec.sync_every,
          .weight_decay = spec.weight_decay,
          .beta1 = spec.beta1,
          .beta2 = spec.beta2,
          .grad_clip = spec.grad_clip};
}

tl::expected<std::unique_ptr<Session>, std::string> prepare_session(const std::string& job, const JobSpec& spec,
                                                                    const DataPlaces& places,
                                                                    const kernels::OpsFactory& make_ops,
                                                                    const MemoryLimit& limit) {
  if (auto reason = unsupported(spec); !reason.empty()) return tl::unexpected(std::move(reason));
  if (places.data_sets != nullptr) places.data_sets->begin(job, sources_of(spec));
  auto data = open_data_files(spec, places);
  if (!data) return tl::unexpected(data.error());
  auto session = std::make_unique<Session>();
  session->job = job;
  session->data = std::move(*data);
  session->take(spec);
  if (auto opened = open_initial(*session, places); !opened) return tl::unexpected(opened.error());
  session->training = training_data(spec, session->data);
  if (auto here = await_first_data(*session); !here) return tl::unexpected(here.error());
  try {
    build_model(*session, make_ops, limit);
  } catch (const kernels::DeviceFailure&) {
    throw;  // the device failed, and not the job
  } catch (const std::bad_alloc&) {
    return tl::unexpected(no_memory_given(spec, !session->ops || session->ops->memory_is_host()));
  } catch (const std::exception& error) {  // not enough memory of a device, a model that cannot be built
    return tl::unexpected(std::string(error.what()));
  }
  return session;
}

void Session::take(const JobSpec& given) {
  spec = given.with_steps_over(data.training_tokens());
}

int host_threads(const kernels::DeviceOps& ops, int most) {
  const int own = ops.info().threads;
  return std::clamp(own > 0 ? own : static_cast<int>(std::thread::hardware_concurrency()), 1, most);
}

RunResult<void> reset_to_initial(Session& session) {
  session.has_state = false;
  session.state.reset();  // before the new one: both at once would be two more copies of the parameters
  begin_state(session);
  if (!session.is_divided()) {
    if (const auto read = session.state->initialize(*session.initial); !read)
      return tl::unexpected(fault("init_from_unreadable", read.error()));
  }
  session.has_state = true;
  return {};
}

}  // namespace holdfast::worker
