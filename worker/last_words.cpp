#include "worker/last_words.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

// NOLINTBEGIN(concurrency-mt-unsafe): between fork and exec, and at the end of a process

namespace holdfast::worker {
namespace {

void close_once(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

}  // namespace

LastWords::LastWords() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  ears_ = ends[0];
  mouth_ = ends[1];
}

LastWords::~LastWords() {
  close_once(ears_);
  close_once(mouth_);
}

void LastWords::hand_over() const {
  if (mouth_ < 0) return;
  ::fcntl(mouth_, F_SETFD, 0);  // is inherited
  ::setenv(kLastWordsVariable, std::to_string(mouth_).c_str(), 1);
}

void LastWords::born() {
  close_once(mouth_);
}

std::string LastWords::heard() {
  std::array<char, kLastWordsMost> words{};
  const ssize_t count = ears_ < 0 ? 0 : ::read(ears_, words.data(), words.size());
  return count > 0 ? ": " + std::string(words.data(), static_cast<size_t>(count)) : "";
}

void say_last_words(const std::string& reason) {
  const char* fd = std::getenv(kLastWordsVariable);
  if (fd == nullptr) return;
  std::string line = reason.substr(0, kLastWordsMost);
  std::ranges::replace(line, '\n', ' ');
  static_cast<void>(!::write(std::atoi(fd), line.data(), line.size()));
}

}  // namespace holdfast::worker

// NOLINTEND(concurrency-mt-unsafe)
