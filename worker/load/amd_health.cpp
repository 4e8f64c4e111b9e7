// The formats of amdgpu's files. RAS counters: Linux, Documentation/gpu/amdgpu/ras.rst, and drivers/gpu/drm/amd/amdgpu/
// amdgpu_ras.c (amdgpu_ras_sysfs_read): "ue: N" and "ce: N" on lines of their own, of the memory "de: N" (deferred), too.
// gpu_metrics: .../amd/include/kgd_pp_interface.h, the throttlers' bits .../amd/pm/swsmu/inc/amdgpu_smu.h. Sensors:
// Documentation/hwmon/sysfs-interface.rst.
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "worker/load/health.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCounterEnds = "_err_count";

std::optional<int64_t> integer_in(const fs::path& file) {
  std::ifstream stream(file);
  int64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::string line_in(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Nullopt where a line is missing that every kernel writes, or has no number.
std::optional<ErrorCounts> counts_in(const fs::path& file) {
  std::ifstream stream(file);
  std::optional<int64_t> uncorrected, corrected;
  std::string name;
  int64_t count = 0;
  while (stream >> name >> count) {
    if (count < 0) return std::nullopt;
    if (name == "ue:") uncorrected = count;
    if (name == "ce:") corrected = count;
  }
  if (!uncorrected || !corrected) return std::nullopt;
  return ErrorCounts{*uncorrected, *corrected};
}

// Heat's bits of indep_throttle_status: 32 to 45 are of temperatures and regulators, 46 and 47 a signal from without. The bits
// below are of power and current, at whose limits a busy GPU belongs.
constexpr std::array<std::pair<int, const char*>, 16> kHeat{{
    {32, "the GPU's limit"},
    {33, "a core's limit"},
    {34, "the memory's limit"},
    {35, "the edge's limit"},
    {36, "the hotspot's limit"},
    {37, "the SoC's limit"},
    {38, "the limit of the GPU's voltage regulator"},
    {39, "the limit of the SoC's voltage regulator"},
    {40, "the limit of the memory's voltage regulator"},
    {41, "the limit of the memory's voltage regulator"},
    {42, "the limit of the liquid cooling"},
    {43, "the limit of the liquid cooling"},
    {44, "a voltage regulator's alarm"},
    {45, "a voltage regulator's alarm"},
    {46, "the signal that a processor is too hot"},
    {47, "the signal that a processor is too hot"},
}};

// The table begins with its size, uint16_t, and its format's and its content's revision, a byte each. Of the GPUs' tables 1.3
// alone has indep_throttle_status (uint64_t, its last field); 1.0 to 1.2 have bits whose meaning differs from one GPU to
// another, and from 1.4 on there are other counters. Nullopt: it does not tell.
std::optional<std::string> heat_in_metrics(const fs::path& file) {
  constexpr size_t kBytes = 120, kThrottleAt = 112;
  std::array<char, kBytes> table{};
  std::ifstream stream(file, std::ios::binary);
  if (!stream.read(table.data(), table.size())) return std::nullopt;
  uint16_t size = 0;
  std::memcpy(&size, table.data(), sizeof size);
  if (size != kBytes || table[2] != 1 || table[3] != 3) return std::nullopt;
  uint64_t throttlers = 0;
  std::memcpy(&throttlers, table.data() + kThrottleAt, sizeof throttlers);
  if (throttlers == ~uint64_t{0}) return std::nullopt;  // so the driver marks fields that this GPU has not
  for (const auto& [bit, words] : kHeat) {
    if ((throttlers >> bit & 1) != 0) return words;
  }
  return "";
}

class AmdHealth final : public HealthReader {
 public:
  explicit AmdHealth(fs::path folder) : folder_(std::move(folder)) {}

  bool tells_anything() const {
    std::error_code ignored;
    return fs::exists(folder_ / "ras", ignored) || fs::exists(folder_ / "hwmon", ignored) ||
           fs::exists(folder_ / "gpu_metrics", ignored);
  }

  DeviceHealth read() override {
    DeviceHealth health;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_ / "ras", ignored)) {
      const std::string name = entry.path().filename();
      if (!name.ends_with(kCounterEnds)) continue;
      if (const auto counts = counts_in(entry.path()))
        health.errors[name.substr(0, name.size() - kCounterEnds.size())] = *counts;
    }
    const auto heat = heat_in_metrics(folder_ / "gpu_metrics");
    health.hot = heat ? *heat : heat_of_sensors();
    return health;
  }

 private:
  // A sensor at its critical temperature, where the driver slows the GPU down: "junction at 112 degrees of 110".
  std::string heat_of_sensors() const {
    std::error_code ignored;
    for (const auto& monitor : fs::directory_iterator(folder_ / "hwmon", ignored)) {
      for (int sensor = 1; sensor <= 8; ++sensor) {  // edge, junction and mem are the first three
        const std::string name = "temp" + std::to_string(sensor);
        const auto now = integer_in(monitor.path() / (name + "_input")),
                   critical = integer_in(monitor.path() / (name + "_crit"));
        if (!now || !critical || *critical <= 0 || *now < *critical) continue;
        const std::string label = line_in(monitor.path() / (name + "_label"));
        return (label.empty() ? name : label) + " at " + std::to_string(*now / 1000) + " degrees of " +
               std::to_string(*critical / 1000);
      }
    }
    return "";
  }

  fs::path folder_;
};

}  // namespace

std::unique_ptr<HealthReader> make_amd_health_reader(std::string folder) {
  auto reader = std::make_unique<AmdHealth>(std::move(folder));
  if (!reader->tells_anything()) return nullptr;
  return reader;
}

}  // namespace holdfast::worker
