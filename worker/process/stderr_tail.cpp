#include "worker/process/stderr_tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "rendezvous/protocol/messages.h"
#include "worker/process/pipe_end.h"

namespace holdfast::worker {
namespace {

constexpr int kPipeBytes = 1 << 20;         // the most that an ordinary user may ask for
constexpr size_t kKeptLineBytesMax = 4096;  // a kept line is cut to this
constexpr size_t kBegunBytesMax = 1 << 16;  // a line without an end is cut here

void write_all(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (count <= 0) return;  // nobody reads it
    done += static_cast<size_t>(count);
  }
}

// Without "\x1b[…m".
std::string without_colours(const std::string& line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      const size_t end = line.find('m', i);
      if (end == std::string::npos) break;
      i = end;
    } else {
      plain += line[i];
    }
  }
  return plain;
}

}  // namespace

StderrTail::StderrTail() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  ears_ = ends[0];
  mouth_ = ends[1];
  ::fcntl(mouth_, F_SETPIPE_SZ, kPipeBytes);
}

StderrTail::~StderrTail() {
  close_once(ears_);
  close_once(mouth_);
}

void StderrTail::hand_over() const {
  if (mouth_ < 0) return;
  if (::isatty(STDERR_FILENO) == 1) ::setenv(kTerminalVariable, "1", 1);  // NOLINT(concurrency-mt-unsafe): after fork
  ::dup2(mouth_, STDERR_FILENO);
}

void StderrTail::born() {
  close_once(mouth_);
}

void StderrTail::take(const std::string& line) {
  last_.push_back(without_colours(line.substr(0, kKeptLineBytesMax)));
  if (last_.size() > rendezvous::kLastLinesMax) last_.pop_front();
}

void StderrTail::pass_on() {
  std::array<char, 1 << 16> buffer{};
  for (ssize_t count = 0; ears_ >= 0 && (count = ::read(ears_, buffer.data(), buffer.size())) != 0;) {
    if (count < 0) return;  // no more for now
    begun_.append(buffer.data(), static_cast<size_t>(count));
    std::string whole;
    for (size_t end = 0; (end = begun_.find('\n')) != std::string::npos || begun_.size() > kBegunBytesMax;) {
      const size_t size = end == std::string::npos ? begun_.size() : end + 1;
      whole += begun_.substr(0, size);
      take(begun_.substr(0, end));
      begun_.erase(0, size);
    }
    write_all(whole);
  }
  close_once(ears_);  // nobody can write to it any more
}

std::vector<std::string> StderrTail::lines() {
  pass_on();
  if (!begun_.empty()) {
    write_all(begun_ + "\n");
    take(begun_);
    begun_.clear();
  }
  return {last_.begin(), last_.end()};
}

}  // namespace holdfast::worker
