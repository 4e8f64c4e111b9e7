// `holdfast doctor`: what is looked at before somebody is asked for help. Each check says what was seen, and what to do.
//
// Promises: nothing is changed, but for a file or object that is written in the places that are asked about and removed again;
// every wait is bounded. The functions named judge_ are pure: what was seen comes in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"

namespace holdfast::rendezvous {
struct PostgresqlSurvey;
}

namespace holdfast::ops {

inline constexpr double kClocksApart_s = 2;  // clocks that differ by more are told of

enum class Verdict : uint8_t { kOk, kWarn, kFail };

struct Check {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string seen;
  std::string remedy;  // "" where nothing is to be done
};

struct DoctorArguments {
  std::string interface;                   // as holdfast-worker's flag
  std::string data_dir, checkpoint_store;  // folders, or the second in S3; "" not given
  std::string train_data_path, peer;       // "" not given
  std::string store;                       // postgresql://… of several services; "" not given
  double seconds = 1;                      // for each of netcheck's measurements
};

// The service's answers, for the checks that need them.
struct ServiceSeen {
  std::string host;  // of its URL
  bool here = false, answers = false;
  std::string version;
  std::optional<Json> nodes;  // of /v1/nodes; nothing where the token does not allow it
};

// --- doctor_service.cpp: reachable, token, clocks, versions
std::vector<Check> check_service(const Options& options, ServiceSeen& seen);
// `ahead_s`: the service's clock less this machine's, known to `uncertain_s`.
Check judge_clock(double ahead_s, double uncertain_s);
Check judge_versions(const std::string& service, const std::string& own, const Json& nodes);

// --- services.cpp: of several services, who leads, who stands by, and whether their clocks agree; nothing where --server names
// one
std::vector<Check> check_services(const Options& options);
struct ServiceAsked {
  std::string url, status, leader,
      version;                    // `status` of /healthz: "ok", "standing_by", "waiting"; "" where it does not answer
  std::string problem;            // why not
  std::optional<double> ahead_s;  // its clock less this machine's, to half a second
};
std::vector<Check> judge_services(const std::vector<ServiceAsked>& services);

// --- postgresql.cpp: the database of several services
std::vector<Check> check_postgresql(const std::string& store);
Check judge_replicas(const rendezvous::PostgresqlSurvey& seen);
Check judge_leader(const rendezvous::PostgresqlSurvey& seen);
Check judge_database_clock(const rendezvous::PostgresqlSurvey& seen);

// --- doctor_network.cpp: the interface of a worker here, its port, the other workers, the link to a node
std::vector<Check> check_network(const DoctorArguments& arguments, const ServiceSeen& seen);
struct InterfaceSeen {
  std::string name, address, chosen_by;
  bool loopback = false, wireless = false;
  bool of_containers = false;  // a bridge or pipe of containers or virtual machines on this machine
  int64_t megabits = 0;        // 0: not known
};
Check judge_interface(const InterfaceSeen& interface, bool service_is_here);
bool is_of_containers(const std::string& interface_name);
// `reached`: per worker that is there "", or why not.
struct WorkerSeen {
  std::string worker, node, address, problem;
};
Check judge_workers(const std::vector<WorkerSeen>& workers, const std::string& own_node);

// --- bucket.cpp: a place of checkpoints in S3
Check check_bucket(const std::string& place);

// --- doctor_disk.cpp: folders
enum class FolderUse : uint8_t { kData, kCheckpoints };
Check check_folder(FolderUse use, const std::string& path);
struct DiskSeen {
  double free_bytes = 0, total_bytes = 0;
  std::string filesystem;  // "nfs", "tmpfs", "overlay"; "" for any other
  double sync_s = 0;       // the median of a small write and fsync
  double bytes_per_s = 0;  // of a larger write and its fsync
};
Check judge_disk(FolderUse use, const std::string& path, const DiskSeen& disk);

// --- doctor_machine.cpp: limits, memory, processor, GPUs, the training file
std::vector<Check> check_machine(const DoctorArguments& arguments, const ServiceSeen& seen);
// The cipher of an encrypted ring (ring_tls), and who computes it: `kernel_modules` are those that TCP can have above it, as
// the kernel lists them.
Check judge_encryption(bool has_aes, const std::string& kernel_modules);
Check judge_processor(const std::string& model, const std::string& numerics, int cores, const Json& nodes);

// --- doctor_slurm.cpp: nothing where this machine belongs to no cluster of Slurm
std::vector<Check> check_slurm();
// Of `sinfo --noheader --format="%T %D"`: its exit status, and what it said.
Check judge_slurm(int status, const std::string& text);
// Of `munge -n | unmunge`.
Check judge_munge(int status, const std::string& text);

}  // namespace holdfast::ops
