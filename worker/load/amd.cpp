// Names and units: Linux, Documentation/gpu/amdgpu/thermal.rst and .../driver-misc.rst; hwmon's in
// Documentation/hwmon/sysfs-interface.rst.
#include <filesystem>
#include <fstream>
#include <utility>

#include "worker/load/load_reader.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;

std::optional<double> number_in(const fs::path& file) {
  std::ifstream stream(file);
  double number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::optional<double> scaled(std::optional<double> number, double unit) {
  return number ? std::optional(*number * unit) : std::nullopt;
}

class AmdLoad final : public LoadReader {
 public:
  explicit AmdLoad(fs::path folder) : folder_(std::move(folder)) {}

  rendezvous::DeviceLoad read() override {
    rendezvous::DeviceLoad load;
    load.busy = scaled(number_in(folder_ / "gpu_busy_percent"), 0.01);
    if (const auto used = number_in(folder_ / "mem_info_vram_used")) load.memory_used_bytes = static_cast<int64_t>(*used);
    const fs::path sensors = sensors_folder();
    if (sensors.empty()) return load;
    load.watts = scaled(number_in(sensors / "power1_average"), 1e-6);  // microwatts; newer cards have the present value alone
    if (!load.watts) load.watts = scaled(number_in(sensors / "power1_input"), 1e-6);
    load.celsius = scaled(number_in(sensors / "temp1_input"), 1e-3);  // the edge, in thousandths
    return load;
  }

 private:
  // hwmon/hwmonN; N is another one after each start of the machine.
  fs::path sensors_folder() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_ / "hwmon", ignored)) return entry.path();
    return {};
  }

  fs::path folder_;
};

}  // namespace

std::unique_ptr<LoadReader> make_amd_load_reader(std::string folder) {
  return std::make_unique<AmdLoad>(std::move(folder));
}

}  // namespace holdfast::worker
