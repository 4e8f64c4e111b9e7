// Labels, of jobs and of workers: what may be one.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace holdfast::rendezvous {

using Labels = std::map<std::string, std::string>;

inline constexpr size_t kLabelsMax = 32, kLabelKeyBytes = 63, kLabelValueBytes = 255;

bool is_label_key(const std::string& key);

// What is wrong with a worker's labels, "" for nothing. Two names are taken: what a job `requires` by them every worker has.
std::string worker_labels_complaint(const Labels& labels);

// "rack=3, zone=a"
std::string labels_in_words(const Labels& labels);

}  // namespace holdfast::rendezvous
