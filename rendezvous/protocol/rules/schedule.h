// Rules between the job spec's fields that say how long a job trains and how its learning rate goes.
//
// Each check adds a complaint for what `spec` breaks, about the field that is easiest to change. Pure. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {

void check_length(const JobSpec& spec, std::vector<FieldError>& errors);
void check_warmup(const JobSpec& spec, std::vector<FieldError>& errors);
void check_min_lr(const JobSpec& spec, std::vector<FieldError>& errors);
void check_schedule(const JobSpec& spec, std::vector<FieldError>& errors);
void check_schedule_start(const JobSpec& spec, std::vector<FieldError>& errors);

// Why a schedule cannot begin at `schedule_start` in a job that goes on from `source`, whose step is an earlier one.
std::string beyond_in_words(int64_t schedule_start, const std::string& source, int64_t step);
// Why a job that is counted in epochs, which turn out to be `total_steps`, cannot train from `first_step` on; "" where it can.
std::string unfit_length(const JobSpec& spec, int64_t total_steps, int64_t first_step);
// The sentence on a warm-up or a fall of the rate that such a job is too short for, with so much data; "" where it is not.
std::string cut_schedule(const JobSpec& spec, int64_t data_tokens);

}  // namespace holdfast::rendezvous
