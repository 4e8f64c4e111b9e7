// The planner's formulas: the cost of a job's step on a link, and the share of the devices' time that is left for computing.
//
// Promises: pure; a figure is a function of the inputs, and every formula stands here. Where something is assumed and not
// derived, assumptions() says it in words.
// Refuses nothing: the caller checks ranges (all numbers positive, but for update_s and round_trip_s, which may be 0).
//
// A step here is an optimizer step. With sync_every H above 1 a step of the job, as `show` counts them, is H of these on each
// node, and one synchronisation.
//
// N workers on M nodes (one on each where nothing else is said), a microbatches a rank and step, m seconds a microbatch
// (forward and backward), u seconds of optimizer a step, H steps between synchronisations; P parameters, L layers of P_l
// parameters each; e bytes an element on the wire; b sequences of T tokens in a microbatch, C channels, a vocabulary of V; R
// bytes a second that the link carries in each direction with both busy; t the round trip.
//
//   bytes each way, one sync   B = 2 (M-1)/M P e                     ring of the nodes (worker/collectives/README.md);
//                                                                    within a node it is taken to cost nothing
//                              B = ((N-1)/2 + (N-1)/N) P e           int8, e = 1 + 4/512 (a float32 scale for 512 elements):
//                                                                    the first half is an all-to-all whose blocks go round
//                              B = (N+K-2)/N P e a' + (N-K)/N P e_c  a state of which K < N workers have each part: sums go
//                                                                    to these alone, and new parameters to the others
//                              (worker/state/divided); e_c = 4, or with 16 bits about 0.6, as differences (bench/NOTES.md);
//                              a' = a with shard gradients, which sends after each microbatch and has no rows apart; else 1.
//                              With shard parameters the second term is (N-K)/N e_a (P - L P_l + 2 a L P_l):
//                              a layer's, of e_a bytes, for the forward pass and again for the backward pass of a microbatch
//   rows of the embedding      E = (N-1) min(b T, V) (C e_r + 4)     with overlap and H = 1, and without overlap where the
//                                                                    reduction is not exact: each rank gathers what the tokens
//                                                                    (b T) of the
//                              others' last microbatches give the embedding's gradient (worker/gradients/sparse_rows.h), a row
//                              for each distinct one, so at most that; e_r = 2 with int16, 4 with every other type
//   time on the link           B / R, and E / R
//   latency                    (M-1) t for each collective of a sync: three all-gathers (what the ranks tell each other before
//                              it, the rows of a tied wte, which with H > 1 are none, and that it is done), and ceil(4 P / 4e6)
//                              all-reduces: one for each bucket of 4 MB of gradient, with overlap and without
//   hidden behind computing    0 without overlap, and with H > 1. Else it is sent beside the last microbatch's backward pass:
//                              the head's part of the embedding's gradient (wte, tied to the head; else that of the head's own
//                              matrix) while the pass goes through the layers, and the gradient of a layer once the pass has
//                              left it:
//                                c = P_l e' / R, w = V C e' / R     seconds on the link for a layer and for wte (e' = B / P)
//                                d = 2/3 m (1-h) / L                seconds of backward pass for a layer
//                                hidden = min(L d, w + (L-1) min(c, d))
//                              for the k-th layer of the pass is ready at k d, so the link has done with the last one at
//                              max(w + L c, d + L c, L d + c). The last one's c is never hidden; wpe, and the rows, or a wte
//                              that is not tied, are final only when the pass is over. h is the share of the head in the work:
//                              of the multiply-adds of a token, V C of V C + L (12 C^2 + T C); its backward pass comes first.
//                              With shard gradients it is a (L-1) min(c, d), where c is one microbatch's, and with shard
//                              parameters, of which a layer's take g on the link, a (L-1) (min(c + g, d) + min(g, d/2)); g is
//                              hidden on CPUs alone
//   exposed, one sync          (B + E) / R + latency - hidden
//   step                       a m + u + exposed / H
//   efficiency                 (a m + u) / step: against one rank alone with as many microbatches a rank
//   of one node                the efficiency, times N / (workers of a node): the tokens a second of all nodes, in those of one
//                              of them alone
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/parameter_table.h"
#include "model/recompute.h"
#include "rendezvous/protocol/wire_types.h"

namespace holdfast::rendezvous {

using WireType = WireTypeRow;

struct PlanInputs {
  model::Gpt2Config model;
  int64_t workers = 2, workers_per_node = 1, batch_size = 4, accumulation = 1, sync_every = 1;
  WireType wire = kWireTypes.front();
  bool overlap = true;
  int64_t replicas = 0;              // workers that keep each part of the state; 0: all
  bool scatters_gradients = false;   // with replicas: a worker has the sums of its own parts alone (shard gradients)
  bool scatters_parameters = false;  // and gathers what it computes with, layer by layer (shard parameters)
  bool offloads = false;             // with replicas: a GPU's host has float32 parameters and moments (offload optimizer)
  model::Recompute recompute = model::Recompute::kNone;
  int64_t activation_bytes = 2;  // of an element
  double microbatch_s = 0, update_s = 0;
  double link_bytes_per_s = 0, round_trip_s = 0;
  double device_memory = 0;      // bytes of the smallest device; 0: not known
  bool by_global_batch = false;  // the batch is given as global_batch_size: accumulation follows from it
};

struct PlanFigures {
  int64_t parameters;
  int64_t tokens_per_optimizer_step, tokens_per_step;  // of all nodes together; tokens_per_step: in a step of the job
  // Of one sync: bytes of the gradient, and of the embedding's rows at most; seconds.
  double bytes_each_way, row_bytes_each_way;
  double link_s, row_s, latency_s, hidden_s, exposed_s;
  // Of one optimizer step; communication is what of it is exposed. The shares add up to 1.
  double optimizer_step_s, optimizer_step_compute_s, optimizer_step_communication_s;
  double communication_share, efficiency;
  double tokens_per_s;  // of all nodes together
  double of_one_node;   // beside those of one node alone; below 1, several nodes are slower than one
  double memory;        // bytes that a worker takes of its device's memory (memory.h)
};
PlanFigures figures_of(const PlanInputs& inputs);

int64_t nodes_of(const PlanInputs& inputs);            // the last may have fewer workers than the others
PlanInputs on_one_node(PlanInputs inputs);             // the same, on the workers of one node
std::string nodes_in_words(const PlanInputs& inputs);  // "2 nodes", "2 nodes of 4 workers"

struct ParameterCounts {
  int64_t total = 0, layer = 0, embedding = 0;  // of all; of one layer; of wte, as large as the head's matrix
};
ParameterCounts parameter_counts(const model::Gpt2Config& model);

// Whether gradients are sent beside computing: a sync is measured whole, as the time a rank waits for the ring, where not.
bool overlaps(const PlanInputs& inputs);

// The words of the job spec: "on", "attention".
const char* overlap_word(const PlanInputs& inputs);
const char* recompute_word(model::Recompute recompute);

// The assumptions behind the figures, as sentences.
std::vector<std::string> assumptions(const PlanInputs& inputs);

// The rate that a link of nominal `gbit_s` is taken to carry, in bytes a second; netcheck measures the true one. Of the 1,538
// bytes that a frame of 1,500 takes on the wire, 1,448 are TCP's to fill.
constexpr double kLineRateShare = 0.94;
double nominal_link_rate(double gbit_s);

}  // namespace holdfast::rendezvous
