// The sizes of the model that a checkpoint holds, from the job spec in its manifest.
#pragma once

#include "model/parameter_table.h"
#include "storage/checkpoint.h"

namespace holdfast::model {

// A size that the spec does not say is 0: Gpt2Config::problems tells whether such a model can be built. A head of which it does
// not say anything is tied.
Gpt2Config config_of(const storage::Manifest& manifest);

}  // namespace holdfast::model
