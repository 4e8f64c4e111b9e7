// A worker for each of several devices of this machine, from one command (--devices).
//
// Each is a process of its own: a whole worker with a supervisor below this one, named NAME-0, NAME-1 and so on, so that
// one that fails costs the others nothing. Promises: none of them outlives this process. The first SIGTERM or SIGINT is
// passed on as SIGTERM, for all to finish their step; the second one kills.
// Thread: single-threaded, and must be: it forks.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::worker {

// How many GPUs this machine has, or why they cannot be had (a sentence without its end).
using GpuCount = std::function<tl::expected<int, std::string>()>;

// The names, as --device takes them, that --devices asks for: "all" (every GPU; without any, the CPU), "0,1,3" (GPUs by their
// numbers), "cpu:2" (workers that share the CPU's cores). `gpu_count` is asked only where GPUs are wanted, in a process of its
// own, for a GPU's runtime takes memory. The error is a sentence for people.
tl::expected<std::vector<std::string>, std::string> device_names(const std::string& devices, const GpuCount& gpu_count);
// Whether it is one of those words, whatever this machine has.
bool is_list_of_devices(const std::string& devices);

struct FleetMember {
  std::string name, device;
  int threads;
  double memory_gib = 0;  // of the host's; 0: no bound of its own
};
// `arguments` (without the program's name) with this member's own flags in place of those of the fleet.
std::vector<std::string> arguments_of(const FleetMember& member, const std::vector<std::string>& arguments);

// Starts `program` once with each of these arguments and waits for all; the largest exit status of them.
int run_fleet(const std::string& program, const std::vector<std::vector<std::string>>& arguments);

}  // namespace holdfast::worker
