// Labels of jobs and of workers, and the rules for them.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace holdfast::rendezvous {

using Labels = std::map<std::string, std::string>;

inline constexpr size_t kLabelsMax = 32, kLabelKeyBytes = 63, kLabelValueBytes = 255;

bool is_label_key(const std::string& key);

// Says what is wrong with a worker's labels; "" when nothing is. The names "device" and "memory_gib" are refused: a job may
// require them, and every worker has them without a label.
std::string worker_labels_complaint(const Labels& labels);

// "rack=3, zone=a"
std::string labels_in_words(const Labels& labels);

}  // namespace holdfast::rendezvous
