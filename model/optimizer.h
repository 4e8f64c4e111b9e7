// The optimizer's settings and schedule, and one step of AdamW over a model's tensors.
//
// Promises: pure functions of their arguments; the same bits on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops.h"
#include "model/parameter_table.h"

namespace holdfast::model {

enum class Schedule : uint8_t { kCosine, kLinear, kConstant, kWarmupStableDecay };
std::optional<Schedule> schedule_named(std::string_view name);  // "cosine", "linear", "constant", "wsd"

// AdamW and schedule settings, as in the job spec.
struct OptimizerConfig {
  double learning_rate = 0, min_lr = 0;
  int64_t warmup_steps = 0, total_steps = 0;
  Schedule schedule = Schedule::kCosine;
  int64_t decay_steps = 0, schedule_start = 0;
  double weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 1e-8, grad_clip = 0;  // grad_clip 0: no clipping
};

// Linear warm-up over warmup_steps from schedule_start on: from 0, or, where that is above 0, from min_lr, which is the rate
// before it. Then down to min_lr, which it stays at: along a cosine (Loshchilov, Hutter 2017, eq. 5) or in a line, within
// decay_steps (0: until total_steps); or in a line within the last decay_steps (0: a tenth of those from schedule_start on),
// and before them not at all (warm-up, stable, decay: Hu et al. 2024, section 4.2; Hagele et al. 2024); or not at all. `step`
// counts from 0: the rate used by the step that leads from state `step` to state `step + 1`.
double learning_rate_at(const OptimizerConfig& config, int64_t step);

// Elements of the table that are to be updated; where theirs begin in buffers of such elements alone, which lie end to end.
struct OwnedElements {
  Elements elements;
  int64_t at = 0;
};

// Of numbers on the device: as many as the table says, at the table's places; or owned elements end to end.
enum class Layout : uint8_t { kTable, kOwned };
struct Gradient {
  const float* floats;
  Layout layout = Layout::kTable;
  // Instead of floats: sums in fixed point. An element is its sum times its tensor's scale (DeviceOps::fixed_unpack).
  const int16_t* sums = nullptr;
  std::span<const float> scales = {};
};

inline constexpr int64_t kUnpackedElements = 4 * kChunkElements;

// `owned` ascending, apart from each other.
struct AdamWTensors {
  float* parameters;
  Layout parameters_layout;
  float *m, *v;
  Layout moments_layout;
  Gradient gradient;
  std::span<const OwnedElements> owned;
  float* unpacked = nullptr;  // kUnpackedElements floats, where the gradient is sums
};

// The sums of squares of a gradient's chunks (ParameterTable::chunks), which are on the device; 0 of those without elements.
std::vector<double> squares_of(kernels::DeviceOps& ops, std::span<const kernels::DeviceOps::Floats> chunks);
// The gradient's norm, from the sums of squares of all chunks, which are added in the chunks' order.
double norm_of(std::span<const double> squares);
// The same of a gradient that is all here.
double norm_of(kernels::DeviceOps& ops, std::span<const Elements> chunks, const float* gradient);

// One step with the learning rate of `step` and moments that have seen `moments_step` steps before. The gradient counts
// `gradient_scale` times, and is clipped to the configuration's norm. `norm`: that of all of it, scaled, and finite.
void apply_adamw(kernels::DeviceOps& ops, const ParameterTable& table, const OptimizerConfig& config, const AdamWTensors& at,
                 int64_t step, int64_t moments_step, double norm, double gradient_scale = 1);

}  // namespace holdfast::model
