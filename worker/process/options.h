// The worker's command line and environment.
//
// Order: flag over environment over default. For people who come from PyTorch, NCCL_SOCKET_IFNAME, NCCL_SHM_DISABLE,
// NCCL_TIMEOUT (seconds) and NCCL_DEBUG are honoured where our own settings are unset; NCCL_TIMEOUT only where the job leaves
// collective_timeout_s at its default, because the job's own setting is the same on every worker. Refuses: bad values. Only the
// first one is named, with what was expected.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "worker/transport/transport.h"

namespace holdfast::worker {

struct WorkerOptions {
  std::string server, token, server_host;
  std::string device = "auto";  // a name as in devices.h
  int64_t local_rank = -1;      // torchrun's or Slurm's number of the GPU that "auto" tries first; -1: the first discrete one
  bool share_device = false;    // with other workers that say so
  std::string devices;          // a worker for each of these (fleet.h); "": one worker, with `device`
  std::string measure;          // fields of a job to try the device with (measure.h), and nothing else; "": work
  std::string name;             // "": <hostname>-<supervisor's pid>
  std::string interface;        // "": the one that routes to the server
  PortRange ring_ports;         // where other workers reach this one
  bool shared_memory = true;    // with other workers of this machine, for sums
  int threads = 0;              // at least 1 once parsed
  double memory_gib = 0;        // of the host's memory, for jobs; 0: as much as there is
  std::string data_root;
  std::string data_cache;                     // the folder of data sets; "": below data_root, else in the user's cache
  double data_cache_gib = 0;                  // of data sets that are kept on this machine; 0: what the volume has room for
  std::vector<std::string> checkpoint_roots;  // empty: anywhere
  std::map<std::string, std::string> labels;
  std::string only_job;  // the one job that it works for, until that ends; "": any job, until it is told to end
  std::string log_level = "info";
  std::optional<std::chrono::milliseconds> collective_timeout;
  std::string fault_rules;      // HOLDFAST_FAULT, which parsing has checked
  std::string drills;           // the folder for worker/drills/drills.h; "": no drills
  std::string tensorboard_dir;  // each job's event files are in a folder below this one; "": no event files
};

// The program is to end now: the text to print, and the exit status (0 for --help).
struct EarlyEnd {
  std::string text;
  int status;
};
tl::expected<WorkerOptions, EarlyEnd> parse_options(int argc, const char* const* argv);

}  // namespace holdfast::worker
