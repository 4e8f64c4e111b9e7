// bench_emulated_worker: holdfast-worker with a device that takes its time and computes nothing (emulated_ops.h).
//
// HOLDFAST_BENCH_MICROBATCH_MS: what forward and backward of one microbatch take; 30 unless given. Every flag and exit status
// is holdfast-worker's; --device and --threads have no meaning. Never for a job whose result anybody wants.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "bench/emulated/emulated_ops.h"
#include "worker/process/program.h"

namespace {

using namespace holdfast;

constexpr const char* kVariable = "HOLDFAST_BENCH_MICROBATCH_MS";
constexpr double kMillisecondsMax = 3'600'000;

std::optional<double> milliseconds_of(const char* given) {
  if (given == nullptr) return 30.0;
  const std::string_view text(given);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > kMillisecondsMax) return std::nullopt;
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const char* given = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): before there are threads
  const auto milliseconds = milliseconds_of(given);
  if (!milliseconds) {
    std::fprintf(stderr, "bench_emulated_worker: %s is \"%s\": give milliseconds, above 0 and at most %.0f\n", kVariable, given,
                 kMillisecondsMax);
    return 2;
  }
  const std::chrono::duration<double> microbatch(*milliseconds / 1000);
  const kernels::OpsFactory make = [microbatch](kernels::DType dtype) { return bench::make_emulated_ops(dtype, microbatch); };
  return worker::run_worker_program(
      argc, argv,
      [make](const worker::WorkerOptions&) -> tl::expected<worker::ChosenDevice, std::string> {
        return worker::ChosenDevice{make, "", nullptr};
      },
      [] { return 0; });
}
