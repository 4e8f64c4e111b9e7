// The surroundings of every simulated part. Owned by the world, which outlives the parts.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "tests/sim/chance.h"
#include "tests/sim/story.h"
#include "tests/sim/timeline.h"

namespace holdfast::sim {

class CheckpointDisk;
class Network;
class Rings;
class Rules;

using NotFinite = std::map<std::string, std::set<int64_t>>;  // by job: the steps whose gradient is not finite

struct Surroundings {
  Timeline& time;
  Chance& chance;
  const Story& story;
  Rules& rules;
  Rings& rings;
  Network& network;
  CheckpointDisk& disk;
  const NotFinite& not_finite;
};

}  // namespace holdfast::sim
