#include "ops/cli/plan/measure.h"

#include <fmt/format.h>

#include "kernels/ops.h"
#include "model/microbatch_time.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {

DeviceSpeed measured_here(const rendezvous::JobSpec& spec, int threads, double seconds) {
  const auto ops = kernels::make_cpu_ops(kernels::dtype_named(spec.dtype).value(), threads);
  const model::Gpt2Config config{spec.n_layer,    spec.n_embd,     spec.n_head,
                                 spec.vocab_size, spec.block_size, spec.tied_head == "on"};
  const model::Recipe recipe{.dropout = spec.dropout, .trains_biases = spec.biases == "on"};
  const auto time =
      model::time_microbatches(*ops, config, spec.batch_size, *model::recompute_of(spec.recompute), recipe, seconds);
  return {time.seconds,
          fmt::format("measured on this machine's processors, {}, {}{}; the optimizer is left out",
                      rendezvous::counted(threads, "thread"), rendezvous::counted(time.passes, "microbatch", "microbatches"),
                      recipe.dropout > 0 ? " with dropout" : "")};
}

}  // namespace holdfast::ops
