// The fields of the job spec as flags: the word for the value in help, the choices for completion, and the line of help.
#pragma once

#include <string>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::ops {

// "INT", "FILE", "{float32,bfloat16,float16}": command.h says what completion makes of it.
std::string value_name_of(const rendezvous::SpecField& field);
// "Sequences in a microbatch [4; 1 to 65536]"
std::string flag_help_of(const rendezvous::SpecField& field);

}  // namespace holdfast::ops
