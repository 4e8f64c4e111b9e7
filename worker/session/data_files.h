// The training and validation files of a job, opened, checked and fingerprinted. Several training files are a mixture.
//
// Promises: a path of a job never leads outside --data_root where one is given, not through ".." and not through symbolic
// links; every token id is below the vocabulary; a file is fingerprinted once per process as long as it does not change.
// Refuses: with one sentence for the user that names the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/data/token_file.h"
#include "model/data/training_data.h"
#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/protocol/training_digest.h"
#include "worker/session/data_sets.h"

namespace holdfast::worker {

// Relative paths are below `data_root`, or below the working directory where it is "".
tl::expected<std::string, std::string> resolve_data_path(const std::string& path, const std::string& data_root);

struct CheckedFile {
  std::shared_ptr<const model::TokenFile> file;
  std::string digest;
  std::shared_ptr<FileArrival> arrival;  // null: all tokens are there
};

struct TrainingFile : CheckedFile {
  int64_t share = 1;  // DataSource::share
};

struct DataFiles {
  std::vector<TrainingFile> training;                  // at least one, as train_data_path has them
  std::shared_ptr<const model::TokenFile> validation;  // null for none
  std::shared_ptr<FileArrival> validation_arrival;
  std::string validation_digest;

  int64_t training_tokens() const;     // in all of them
  std::string training_paths() const;  // as train_data_path would have them
  rendezvous::TrainingDigest digest() const;
};

tl::expected<DataFiles, std::string> open_data_files(const rendezvous::JobSpec& spec, const DataPlaces& places);

}  // namespace holdfast::worker
