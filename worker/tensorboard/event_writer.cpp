#include "worker/tensorboard/event_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "rendezvous/client/socket_address.h"
#include "rendezvous/text/errno_text.h"
#include "worker/tensorboard/event_file.h"

namespace holdfast::worker {
namespace {

constexpr size_t kEntriesMax = 100'000;  // while the disk hangs: some 20 MB
constexpr const char* kPrefix = "events.out.tfevents.";

double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.size() <= 128 &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; });
}

// A time later than those in the names of all files in the folder.
int64_t next_time(const std::filesystem::path& folder) {
  auto time = static_cast<int64_t>(wall_s());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int64_t there = 0;
    std::from_chars(name.data() + std::string_view(kPrefix).size(), name.data() + name.size(), there);
    time = std::max(time, there + 1);
  }
  return time;
}

}  // namespace

TensorBoard::TensorBoard(std::string root, OnFailure on_failure) : root_(std::move(root)), on_failure_(std::move(on_failure)) {
  writer_ = std::thread([this] { write_all(); });
}

TensorBoard::~TensorBoard() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  writer_.join();
  if (file_ >= 0) ::close(file_);
}

void TensorBoard::begin(const std::string& job, int64_t step, int64_t world_size,
                        const std::deque<rendezvous::StepPoint>& unconfirmed) {
  queue({wall_s(), unconfirmed.empty() ? step : unconfirmed.front().step - 1, world_size, job, {}});
  for (const rendezvous::StepPoint& point : unconfirmed) queue({wall_s(), point.step, 0, {}, point});
  world_size_ = world_size;
}

void TensorBoard::add(const rendezvous::StepPoint& point) {
  queue({wall_s(), point.step, world_size_, {}, point});
}

void TensorBoard::queue(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kEntriesMax && entry.job.empty()) {
    ++dropped_;
    return;
  }
  entries_.push_back(std::move(entry));
  changed_.notify_all();
}

void TensorBoard::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !entries_.empty(); });
    if (entries_.empty()) return;
    const auto entries = std::exchange(entries_, {});
    const int64_t dropped = std::exchange(dropped_, 0);
    lock.unlock();
    for (const Entry& entry : entries) write(entry);
    if (dropped > 0) spdlog::warn("{} steps are not in TensorBoard's files: {} was not written for so long", dropped, root_);
    lock.lock();
  }
}

void TensorBoard::write(const Entry& entry) {
  if (!entry.job.empty()) {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
    begun_ = entry;
    due_ = true;
    return;
  }
  if (std::exchange(due_, false)) {
    if (const std::string wrong = open_file(entry); !wrong.empty()) return give_up(wrong);
  }
  if (file_ < 0) return;
  const rendezvous::StepPoint& p = entry.point;
  std::vector<Scalar> scalars{{"loss", p.loss},
                              {"learning_rate", p.learning_rate},
                              {"gradient_norm", p.gradient_norm},
                              {"step_s", p.step_s},
                              {"communication_s", p.communication_s}};
  if (entry.world_size > 0) scalars.push_back({"world_size", static_cast<double>(entry.world_size)});
  if (p.validation_loss) scalars.push_back({"validation_loss", *p.validation_loss});
  if (p.step_s > 0) scalars.push_back({"tokens_per_second", static_cast<double>(p.tokens) / p.step_s});
  if (const std::string wrong = append(scalars_event(entry.wall_s, p.step, scalars)); !wrong.empty()) give_up(wrong);
}

std::string TensorBoard::open_file(const Entry& entry) {
  if (!is_plain_name(begun_.job)) return fmt::format("\"{}\" cannot be the name of a folder", begun_.job);
  const std::filesystem::path folder = std::filesystem::path(root_) / begun_.job;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fmt::format("cannot make {}: {}", folder.string(), error.message());
  const std::string path =
      (folder / fmt::format("{}{:010}.{}.{}", kPrefix, next_time(folder), rendezvous::host_name("worker"), getpid())).string();
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) return fmt::format("cannot make {}: {}", path, rendezvous::describe_errno(errno));
  std::string wrong = append(version_event(entry.wall_s));
  return wrong.empty() ? append(session_start_event(entry.wall_s, begun_.step + 1)) : wrong;
}

std::string TensorBoard::append(const std::string& event) {
  const std::string record = event_record(event);
  for (size_t done = 0; done < record.size();) {
    const ssize_t count = ::write(file_, record.data() + done, record.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return fmt::format("cannot write to its file in {}/{}: {}", root_, begun_.job, rendezvous::describe_errno(errno));
    done += static_cast<size_t>(count);
  }
  return "";
}

void TensorBoard::give_up(const std::string& what) {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  on_failure_(begun_.job, fmt::format("TensorBoard's files lack the steps of this generation: {}. Training goes on", what));
}

}  // namespace holdfast::worker
