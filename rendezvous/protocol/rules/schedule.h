// Rules between the job spec's fields that say how long a job trains and how its learning rate goes.
//
// Each adds a complaint for what `spec` breaks, about the field that is easiest to change. Pure. Thread: any.
#pragma once

#include <vector>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {

void check_length(const JobSpec& spec, std::vector<FieldError>& errors);
void check_warmup(const JobSpec& spec, std::vector<FieldError>& errors);
void check_min_lr(const JobSpec& spec, std::vector<FieldError>& errors);
void check_schedule(const JobSpec& spec, std::vector<FieldError>& errors);
void check_schedule_start(const JobSpec& spec, std::vector<FieldError>& errors);

}  // namespace holdfast::rendezvous
