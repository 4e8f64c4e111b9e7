// A job's requirements of its workers: whether one satisfies it, and which requirement keeps a job waiting.
//
//   device=cpu|hip|cuda   the kind of device; hip is AMD's GPUs, cuda NVIDIA's
//   memory_gib=N          its memory is at least so large, as `holdfast nodes` shows it
//   KEY=VALUE             the worker has this label, with this value
// All of them must hold. Pure.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/protocol/labels.h"
#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

// "cpu", "hip", "cuda", "ref". A worker says hip of both makers' GPUs, and its numerics tell which.
std::string device_kind(const RegisterRequest& worker);

bool satisfies(const RegisterRequest& worker, const Labels& requirements);

// "1 of 3 workers satisfies what the job requires: zone=a (2 have b), memory_gib=24 (1 has 16, 1 has 32)": the requirements
// that not all of them satisfy, and what they have. "" where all do.
std::string unsatisfied_in_words(const Labels& requirements, const std::vector<const RegisterRequest*>& workers);

}  // namespace holdfast::rendezvous
