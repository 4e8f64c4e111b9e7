// Settings that spend less time on the network than those of a job, found by trying: first those that train the same.
//
// The same training: as many tokens in an optimizer step, as exact a sum. Four things may change then: the wire type (among
// those of an exact sum), overlap, larger microbatches and fewer of them, and what is computed again to make room for these.
// The bits stay with overlap and recomputing alone: another exact wire type and another microbatch round otherwise, and give a
// state hash of their own, which is the same at any number of nodes again.
// Refuses: settings that need more memory than the device has, where that is known.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/plan/model.h"

namespace holdfast::rendezvous {

// Which settings there may be at all: the caller asks the job spec's rules.
using Allowed = std::function<bool(const PlanInputs&)>;

struct Recommendation {
  double target;  // efficiency; 0: as much as there is
  bool reached;   // else `inputs` is the best of what was tried
  PlanInputs inputs;
  PlanFigures figures;
};

// The fastest settings that train the same, with the least change to `inputs` among equals.
Recommendation recommend_same_training(const PlanInputs& inputs, const Allowed& allowed);

// The settings that reach an efficiency of `target` with the least change to `inputs`. The smallest change is tried first: one
// that trains the same, or a narrower wire type out of `wires`; then twice the accumulation (which grows the global batch) up
// to 64 or what the inputs have; then syncs that are further apart, up to every 64th optimizer step (which changes what is
// learned).
Recommendation recommend(const PlanInputs& inputs, const std::vector<WireType>& wires, double target, const Allowed& allowed);

// The tokens a second of `settings` on all nodes, in those of one node alone with the settings `asked`.
double beside_one_node(const PlanInputs& settings, const PlanInputs& asked);

// The same device with another microbatch: its time grows with the sequences, and with what is computed again.
PlanInputs with_microbatch(const PlanInputs& inputs, int64_t batch_size, model::Recompute recompute);

// The fields of the job spec that make settings `asked` these settings: those that differ, in the order of a command line. A
// value is a number or a word.
using ChangedField = std::pair<const char*, std::variant<int64_t, std::string>>;
std::vector<ChangedField> changed_fields(const PlanInputs& settings, const PlanInputs& asked);
// The same as flags; "" when nothing differs.
std::string changed_flags(const PlanInputs& settings, const PlanInputs& asked);

}  // namespace holdfast::rendezvous
