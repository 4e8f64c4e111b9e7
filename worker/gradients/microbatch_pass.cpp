#include "worker/gradients/microbatch_pass.h"

#include <algorithm>
#include <cmath>

#include "worker/gradients/loss_sum.h"
#include "worker/profile/span.h"

namespace holdfast::worker {

void LocalStep::add(const Computed& computed) {
  finite &= std::isfinite(computed.loss);
  if (std::isfinite(computed.loss)) loss += loss_to_fixed(computed.loss);
  tokens_digest += computed.digest;
}

void LocalStep::saw(size_t tensor, float largest) {
  maxima[tensor] = std::max(maxima[tensor], largest);
  finite &= std::isfinite(largest);
}

MicrobatchPass::MicrobatchPass(const GradientSetup& setup)
    : ops_(setup.ops),
      model_(setup.model),
      data_(setup.data),
      inputs_(static_cast<size_t>(data_.shape().tokens())),
      targets_(inputs_.size()) {}

Computed MicrobatchPass::run(int64_t step, int64_t microbatch, const model::OnGradients& on_gradients) {
  {
    const Span span(SpanKind::kOther, "data");
    data_.fill(step, microbatch, inputs_, targets_);
  }
  return {model_.train_microbatch(inputs_, targets_, on_gradients, model::TiedGradient::kApart, {step, microbatch}),
          model::microbatch_digest(step, microbatch, inputs_, targets_)};
}

std::vector<float> MicrobatchPass::largest_of(model::Elements range) const {
  std::vector<kernels::DeviceOps::Floats> of;
  for (const model::TensorPart& part : model_.table().cut(range))
    of.push_back({model_.gradient_at(part.elements), part.elements.count});
  std::vector<float> largest(of.size());
  ops_.abs_maxima(largest.data(), of.data(), of.size());
  for (float& x : largest) x = std::ldexp(x, -model_.loss_scale_log2());
  return largest;
}

float MicrobatchPass::largest_of_rows() const {
  const model::TokenGradient gradient = model_.token_gradient();
  if (gradient.ids.empty()) return 0;
  const int64_t count = static_cast<int64_t>(gradient.ids.size()) * model_.config().n_embd;
  return std::ldexp(ops_.abs_max(gradient.rows, count), -model_.loss_scale_log2());
}

}  // namespace holdfast::worker
