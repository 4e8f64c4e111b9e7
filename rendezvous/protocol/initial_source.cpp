#include "rendezvous/protocol/initial_source.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace holdfast::rendezvous {
namespace {

constexpr std::string_view kJob = "job:", kIn = " in ";

// Takes "@STEP" off the end of `named`; -1: there is none.
int64_t take_step(std::string& named) {
  const size_t at = named.rfind('@');
  int64_t step = -1;
  if (at == std::string::npos) return step;
  const char* const end = named.data() + named.size();
  const auto [rest, error] = std::from_chars(named.data() + at + 1, end, step);
  if (error != std::errc() || rest != end || step < 0) return -1;
  named.resize(at);
  return step;
}

}  // namespace

InitialSource parse_initial_source(const std::string& init_from) {
  InitialSource source;
  if (!init_from.starts_with(kJob)) {
    source.path = init_from;
    source.step = take_step(source.path);
    return source;
  }
  source.job = init_from.substr(kJob.size());
  if (const size_t in = source.job.find(kIn); in != std::string::npos) {
    source.store = source.job.substr(in + kIn.size());
    source.job.resize(in);
  }
  source.step = take_step(source.job);
  return source;
}

std::string to_text(const InitialSource& source) {
  const std::string step = source.step < 0 ? "" : fmt::format("@{}", source.step);
  if (!source.of_job()) return source.path + step;
  return fmt::format("{}{}{}{}{}", kJob, source.job, step, source.store.empty() ? "" : kIn, source.store);
}

}  // namespace holdfast::rendezvous
