// What every simulated part has at hand. Owned by the world, which outlives them.
#pragma once

#include "tests/sim/chance.h"
#include "tests/sim/story.h"
#include "tests/sim/timeline.h"

namespace holdfast::sim {

class CheckpointDisk;
class Network;
class Rings;
class Rules;

struct Surroundings {
  Timeline& time;
  Chance& chance;
  const Story& story;
  Rules& rules;
  Rings& rings;
  Network& network;
  CheckpointDisk& disk;
};

}  // namespace holdfast::sim
