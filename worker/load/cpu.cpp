// A worker on the CPU looks at its own process: time on processors and resident memory (proc(5)).
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "worker/load/load_reader.h"

namespace holdfast::worker {
namespace {

using Clock = std::chrono::steady_clock;

// utime and stime are the 14th and 15th field of stat; the second one, the program's name, may hold spaces and ends with the
// last ")" (proc(5)).
std::optional<double> processor_seconds(const std::string& proc) {
  std::ifstream file(proc + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_ends = line.rfind(')');
  if (name_ends == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_ends + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) rest >> skipped;
  double user = 0, system = 0;
  if (!(rest >> user >> system)) return std::nullopt;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The second number of statm, in pages.
std::optional<int64_t> resident_bytes(const std::string& proc) {
  std::ifstream file(proc + "/statm");
  int64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) return std::nullopt;
  return resident * sysconf(_SC_PAGESIZE);
}

class CpuLoad final : public LoadReader {
 public:
  CpuLoad(int threads, std::string proc) : threads_(threads), proc_(std::move(proc)) {}

  rendezvous::DeviceLoad read() override {
    rendezvous::DeviceLoad load;
    load.memory_used_bytes = resident_bytes(proc_);
    const auto now = Clock::now();
    const auto used = processor_seconds(proc_);
    const double wall = std::chrono::duration<double>(now - std::exchange(at_, now)).count();
    const auto before = std::exchange(used_, used);
    if (used && before && wall > 0) load.busy = std::clamp((*used - *before) / (wall * threads_), 0.0, 1.0);
    return load;
  }

 private:
  int threads_;
  std::string proc_;
  Clock::time_point at_;
  std::optional<double> used_;
};

}  // namespace

std::unique_ptr<LoadReader> make_cpu_load_reader(int threads, std::string proc) {
  return std::make_unique<CpuLoad>(threads, std::move(proc));
}

}  // namespace holdfast::worker
