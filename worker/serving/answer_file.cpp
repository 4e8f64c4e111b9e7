#include "worker/serving/answer_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

namespace holdfast::worker {
namespace {

using Json = nlohmann::json;

std::string reason() {
  return std::strerror(errno);  // NOLINT(concurrency-mt-unsafe): one thread
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// The first 16 digits of a digest.
uint64_t number_of(const std::string& digest) {
  uint64_t number = 0;
  std::from_chars(digest.data(), digest.data() + std::min<size_t>(digest.size(), 16), number, 16);
  return number;
}

}  // namespace

AnswerFile::AnswerFile(AnswerFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      is_ours_(other.is_ours_),
      end_(other.end_),
      places_(std::move(other.places_)) {}

AnswerFile::~AnswerFile() {
  if (file_ < 0) return;
  struct stat there {};
  if (is_ours_ && ::fstat(file_, &there) == 0 && there.st_size == 0) ::unlink(part().c_str());  // nothing is in it
  ::close(file_);
}

std::string AnswerFile::failed(const char* what) const {
  const std::string why = reason();
  return fmt::format(
      "{}: {}: {}{}", part(), what, why,
      errno == ENOSPC || errno == EDQUOT ? ": make room and run the same command again: it goes on from what is there" : "");
}

tl::expected<AnswerFile, std::string> AnswerFile::open(std::string path, const std::string& fingerprint, int64_t step) {
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0)
    return tl::unexpected(fmt::format("{} is there already: remove it, or give another name", path));
  AnswerFile answers(std::move(path), -1);
  answers.file_ = ::open(answers.part().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
  if (answers.file_ < 0) return tl::unexpected(answers.failed("opening it"));
  if (::flock(answers.file_, LOCK_EX | LOCK_NB) != 0)
    return tl::unexpected(fmt::format("{}: another process writes answers to it", answers.part()));
  answers.is_ours_ = true;
  if (const auto taken = answers.take_up(fingerprint, step); !taken) return tl::unexpected(taken.error());
  return answers;
}

// Up to the first line that is torn; it and what follows are taken away.
tl::expected<void, std::string> AnswerFile::take_up(const std::string& fingerprint, int64_t step) {
  std::ifstream lines(part(), std::ios::binary);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const Json answer = Json::parse(line, nullptr, false);
    if (!answer.is_object() || !answer.contains("line") || !answer.contains("request")) break;
    if (answer.value("system_fingerprint", "") != fingerprint) {
      const int64_t its_step = answer.value("step", step);
      if (its_step != step) {
        return tl::unexpected(
            fmt::format("{0} has answers of step {1}, and this is the checkpoint of step {2}: go on with `--from PLACE@{1}`, "
                        "give another name, or remove it",
                        part(), its_step, step));
      }
      return tl::unexpected(fmt::format("{} has answers of another model ({}, expected {}): give another name, or remove it",
                                        part(), answer.value("system_fingerprint", ""), fingerprint));
    }
    const auto bytes = static_cast<int64_t>(line.size() + 1);
    places_[answer.at("line").get<int64_t>()] = {end_, bytes, number_of(answer.at("request").get<std::string>())};
    end_ += bytes;
  }
  if (::ftruncate(file_, end_) != 0) return tl::unexpected(failed("cutting off what was torn"));
  return {};
}

std::optional<std::string> AnswerFile::digest_of(int64_t line) const {
  const auto found = places_.find(line);
  if (found == places_.end()) return std::nullopt;
  return fmt::format("{:016x}", found->second.digest);
}

tl::expected<void, std::string> AnswerFile::add(const Json& answer) {
  const std::string line = answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!write_all(file_, line)) return tl::unexpected(failed("writing"));
  const auto bytes = static_cast<int64_t>(line.size());
  places_[answer.at("line").get<int64_t>()] = {end_, bytes, number_of(answer.at("request").get<std::string>())};
  end_ += bytes;
  return {};
}

tl::expected<std::string, std::string> AnswerFile::read(const Place& place) const {
  std::string line(static_cast<size_t>(place.bytes), '\0');
  for (size_t done = 0; done < line.size();) {
    const ssize_t got = ::pread(file_, line.data() + done, line.size() - done, place.offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return tl::unexpected(failed("reading"));
    done += static_cast<size_t>(got);
  }
  return line;
}

tl::expected<void, std::string> AnswerFile::finish() {
  const std::string whole = path_ + ".whole";
  const int file = ::open(whole.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return tl::unexpected(failed("making its ordered copy"));
  tl::expected<void, std::string> result;
  for (auto place = places_.begin(); place != places_.end() && result; ++place) {
    const auto line = read(place->second);
    if (!line) {
      result = tl::unexpected(line.error());
    } else if (!write_all(file, *line)) {
      result = tl::unexpected(failed("writing its ordered copy"));
    }
  }
  if (result && ::fsync(file) != 0) result = tl::unexpected(failed("writing its ordered copy"));
  ::close(file);
  if (result && ::rename(whole.c_str(), path_.c_str()) != 0) result = tl::unexpected(failed("naming its ordered copy"));
  if (!result) {
    ::unlink(whole.c_str());
    return result;
  }
  ::unlink(part().c_str());
  return {};
}

}  // namespace holdfast::worker
