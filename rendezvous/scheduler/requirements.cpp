#include "rendezvous/scheduler/requirements.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace holdfast::rendezvous {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr size_t kValuesMax = 6;  // told of, of one requirement

double memory_gib(const RegisterRequest& worker) {
  return static_cast<double>(worker.memory_bytes) / kGib;
}

// A spec that parses has a number here.
double number_of(const std::string& text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The worker's value where a requirement has `key`; "none" for a label that it lacks.
std::string value_of(const RegisterRequest& worker, const std::string& key) {
  if (key == "device") return device_kind(worker);
  if (key == "memory_gib") return fmt::format("{:.4g}", memory_gib(worker));
  const auto label = worker.labels.find(key);
  return label == worker.labels.end() ? "none" : label->second;
}

bool satisfies_one(const RegisterRequest& worker, const std::string& key, const std::string& wanted) {
  if (key == "device") return device_kind(worker) == wanted;
  if (key == "memory_gib") return memory_gib(worker) >= number_of(wanted);
  const auto label = worker.labels.find(key);
  return label != worker.labels.end() && label->second == wanted;
}

// "zone=a (2 have b, 1 has none)", or "" where all satisfy it.
std::string others_in_words(const std::string& key, const std::string& wanted,
                            const std::vector<const RegisterRequest*>& workers) {
  std::map<std::string, int> others;
  for (const RegisterRequest* worker : workers) {
    if (!satisfies_one(*worker, key, wanted)) ++others[value_of(*worker, key)];
  }
  if (others.empty()) return "";
  std::string have;
  size_t told = 0;
  for (const auto& [value, count] : others) {
    if (told++ == kValuesMax) {
      have += ", …";
      break;
    }
    have += fmt::format("{}{} {} {}", have.empty() ? "" : ", ", count, count == 1 ? "has" : "have", value);
  }
  return fmt::format("{}={} ({})", key, wanted, have);
}

}  // namespace

std::string device_kind(const RegisterRequest& worker) {
  return worker.device == "hip" && worker.numerics.starts_with("hip/sm_") ? "cuda" : worker.device;
}

bool satisfies(const RegisterRequest& worker, const Labels& requirements) {
  return std::ranges::all_of(requirements, [&](const auto& one) { return satisfies_one(worker, one.first, one.second); });
}

std::string unsatisfied_in_words(const Labels& requirements, const std::vector<const RegisterRequest*>& workers) {
  const auto good = std::ranges::count_if(workers, [&](const auto* worker) { return satisfies(*worker, requirements); });
  const auto all = static_cast<std::ptrdiff_t>(workers.size());
  if (good == all) return "";
  std::string missing;
  for (const auto& [key, wanted] : requirements) {
    const std::string text = others_in_words(key, wanted, workers);
    if (!text.empty()) missing += (missing.empty() ? "" : ", ") + text;
  }
  const std::string who =
      good == 0 ? (all == 1 ? "the only worker does not satisfy" : fmt::format("none of {} workers satisfies", all))
                : fmt::format("{} of {} workers {}", good, all, good == 1 ? "satisfies" : "satisfy");
  return fmt::format("{} what the job requires: {}", who, missing);
}

}  // namespace holdfast::rendezvous
