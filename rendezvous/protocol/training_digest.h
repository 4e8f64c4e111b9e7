// The digest of all that a job's members must have alike, as it stands in WorkerStatus::data_digest and in the database.
//
//   D                        of the only training file
//   D*7,E*3                  of a mixture's sources, each with its share, in the order of train_data_path
//   …+V                      V: of the validation file, where the job evaluates
//   …+weights:W              W: of init_from's weights, where the job begins with some
//
// A digest has none of the characters , * and +. Thread: any; everything here is pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::rendezvous {

struct TrainingDigest {
  struct Source {
    std::string digest;
    std::string share;  // "": it is the only one
    bool operator==(const Source&) const = default;
  };
  std::vector<Source> sources;
  std::string validation, weights;  // "": none
  bool operator==(const TrainingDigest&) const = default;
};

std::string to_text(const TrainingDigest& digest);
// Any text is taken: older releases have made some of it.
TrainingDigest parse_training_digest(const std::string& text);

}  // namespace holdfast::rendezvous
