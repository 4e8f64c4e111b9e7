// Differences between two jobs: in their specs, and in their results. Pure.
#pragma once

#include <string>
#include <vector>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

struct Difference {
  std::string name;  // of the spec's field or of the result
  Json a, b;         // null: this job has none
};
struct JobDiff {
  std::vector<Difference> spec, result;
  bool same_bits = false;  // both have a state hash after the same step, and it is the same
};
JobDiff diff_of(const Json& a, const Json& b);  // both as `show --json` has them

Json json_of(const JobDiff& diff, const Json& a, const Json& b);
// Both values, with the part between their common beginning and their common end in bold.
std::pair<std::string, std::string> with_differing_part_bold(const std::string& a, const std::string& b);

}  // namespace holdfast::ops
