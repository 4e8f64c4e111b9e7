#include "worker/process/life_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "worker/process/pipe_end.h"

// NOLINTBEGIN(concurrency-mt-unsafe): between fork and exec, and at the end of a process

namespace holdfast::worker {
namespace {

constexpr std::string_view kGpu = "gpu ", kTerm = "term ", kReason = "reason ";

// One write, so that lines of two threads stay whole.
void tell(std::string_view what, const std::string& words) {
  const char* fd = std::getenv(kReportVariable);
  if (fd == nullptr) return;
  std::string line = std::string(what) + words.substr(0, kToldMost);
  std::ranges::replace(line, '\n', ' ');
  line += '\n';
  static_cast<void>(!::write(std::atoi(fd), line.data(), line.size()));
}

}  // namespace

LifeReport::LifeReport() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  ears_ = ends[0];
  mouth_ = ends[1];
}

LifeReport::~LifeReport() {
  close_once(ears_);
  close_once(mouth_);
}

void LifeReport::hand_over() const {
  if (mouth_ < 0) return;
  ::fcntl(mouth_, F_SETFD, 0);  // is inherited
  ::setenv(kReportVariable, std::to_string(mouth_).c_str(), 1);
}

void LifeReport::born() {
  close_once(mouth_);
}

Told LifeReport::read() {
  std::array<char, 4 * kToldMost> buffer{};
  std::string all;
  for (ssize_t count = 0; ears_ >= 0 && (count = ::read(ears_, buffer.data(), buffer.size())) > 0;)
    all.append(buffer.data(), static_cast<size_t>(count));
  std::istringstream lines(all);
  Told told;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kGpu)) told.gpu = line.substr(kGpu.size());
    if (line.starts_with(kTerm)) told.term = std::max<int64_t>(told.term, std::strtoll(&line[kTerm.size()], nullptr, 10));
    // Only the first reason counts: the reasons of other threads after it are consequences.
    if (told.reason.empty() && line.starts_with(kReason)) told.reason = line.substr(kReason.size());
  }
  return told;
}

void tell_gpu(const std::string& device) {
  tell(kGpu, device);
}

void tell_term(int64_t term) {
  tell(kTerm, std::to_string(term));
}

void tell_reason(const std::string& reason) {
  tell(kReason, reason);
}

}  // namespace holdfast::worker

// NOLINTEND(concurrency-mt-unsafe)
