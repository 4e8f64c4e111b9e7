// The fields of the job spec as flags: the word for the value in help, the choices for completion, and the line of help.
#pragma once

#include <string>

#include "ops/cli/command/api.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::ops {

// "INT", "FILE", "{float32,bfloat16,float16}": command.h says what completion makes of it.
std::string value_name_of(const rendezvous::SpecField& field);
// "Sequences in a microbatch [4; 1 to 65536]"
std::string flag_help_of(const rendezvous::SpecField& field);
// A flag's text as the JSON type of its field. A text that is not a number stays text: the service then names the field and the
// text.
Json typed_value(const rendezvous::SpecField& field, const std::string& text);

}  // namespace holdfast::ops
