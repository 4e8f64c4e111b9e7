// The training and validation files of a job, opened, checked and fingerprinted.
//
// Promises: a path of a job never leads outside --data_root where one is given, not through ".." and not through symbolic
// links; every token id is below the vocabulary; a file is fingerprinted once per process as long as it does not change.
// Refuses: with one sentence for the user that names the file.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "model/data/token_file.h"
#include "rendezvous/protocol/job_spec.h"

namespace holdfast::worker {

// Relative paths are below `data_root`, or below the working directory where it is "".
tl::expected<std::string, std::string> resolve_data_path(const std::string& path, const std::string& data_root);

struct DataFiles {
  std::shared_ptr<const model::TokenFile> train, validation;  // validation: null for none
  std::string digest;                                         // of the training file
  std::string validation_digest;
};

tl::expected<DataFiles, std::string> open_data_files(const rendezvous::JobSpec& spec, const std::string& data_root);

}  // namespace holdfast::worker
