// A model that is there already, as the beginning of another: its weights for state 0, whoever trained it.
//
// Promises: values are read a tensor at a time, whenever state 0 is made. Of a model with more positions than are wanted the
// first ones are taken; where a head of its own is wanted of one that is tied, it begins as wte. Refuses: a model of other
// sizes, or with a head of its own where a tied one is wanted, with both; what HuggingFaceModel and storage refuse. Errors name
// the path.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "model/initial_values.h"
#include "model/parameter_table.h"
#include "storage/object_store.h"

namespace holdfast::model {

struct InitialWeights {
  std::unique_ptr<InitialValues> values;
  std::string digest;  // XXH3-128 of all values, in the table's order
};

// `path`: as HuggingFaceModel::open has it, or a folder of Holdfast's checkpoints; of these the one of `step`, -1: the newest.
tl::expected<InitialWeights, std::string> open_initial_weights(const std::string& path, int64_t step, const Gpt2Config& wanted);
// The same of checkpoints in a store, wherever its objects are; `named`: for people.
tl::expected<InitialWeights, std::string> open_initial_weights(std::unique_ptr<storage::ObjectStore> store, int64_t step,
                                                               const std::string& named, const Gpt2Config& wanted);

// The sizes of the model at `path`, as open_initial_weights has it.
tl::expected<Gpt2Config, std::string> config_of_weights(const std::string& path, int64_t step);

}  // namespace holdfast::model
