#include "worker/link/outbox.h"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kLettersMax = 10'000;
constexpr size_t kLinesMax = 5'000;
constexpr size_t kLinesPerBatch = 500;
constexpr size_t kBytesPerBatch = 500'000;  // as JSON; the service takes 1 MiB
constexpr size_t kLineBytesMax = 64 << 10;  // the service keeps less of such a line, and notes how much it cut
constexpr milliseconds kLogInterval{500};
constexpr milliseconds kFarewell{2000};

// An upper bound for the line's bytes as JSON.
size_t size_of(const rendezvous::LogLine& line) {
  constexpr size_t kAround = 80;
  size_t size = kAround + 6 * line.level.size();
  for (const char c : line.text) {
    const auto byte = static_cast<unsigned char>(c);
    size += byte < 0x20 ? 6 : byte >= 0x7f ? 3 : c == '"' || c == '\\' ? 2 : 1;  // invalid UTF-8 becomes U+FFFD
  }
  return size;
}

}  // namespace

Outbox::Outbox(ServiceLink& link) : link_(link) {
  sender_ = std::thread([this] { send_all(); });
}

Outbox::~Outbox() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kFarewell, [this] { return done_; });
  }
  stop_.raise("stopping");
  changed_.notify_all();
  sender_.join();
}

void Outbox::fault(const std::string& job, rendezvous::FaultReport report) {
  report.worker = link_.options().worker;
  report.incarnation = link_.options().incarnation;
  add({"/v1/jobs/" + job + "/faults", rendezvous::json_text(report)}, faults_);
}

void Outbox::event(const std::string& job, const std::string& kind, const std::string& message) {
  const rendezvous::WorkerEvent event{link_.options().worker, link_.options().incarnation, kind, message};
  add({"/v1/jobs/" + job + "/events", rendezvous::json_text(event)}, letters_);
}

void Outbox::bodies(const std::string& path, WriteBodies write) {
  add({path, "", std::move(write)}, letters_);
}

void Outbox::add(Letter letter, std::deque<Letter>& to) {
  const std::lock_guard lock(mutex_);
  if (to.size() >= kLettersMax) {
    ++dropped_letters_;
    return;
  }
  to.push_back(std::move(letter));
  changed_.notify_all();
}

void Outbox::log(const std::string& job, rendezvous::LogLine line) {
  if (line.text.size() > kLineBytesMax) line.text.resize(kLineBytesMax);
  const std::lock_guard lock(mutex_);
  if (job != log_job_) {
    // Lines of a job that is over are sent before those of the next job begin.
    for (auto& letter : take_logs()) letters_.push_back(std::move(letter));
    log_job_ = job;
  }
  if (lines_.size() >= kLinesMax) {
    lines_.pop_front();
    ++dropped_lines_;
  }
  lines_.push_back(std::move(line));
}

std::vector<Outbox::Letter> Outbox::take_logs() {
  std::vector<Letter> letters;
  if (dropped_lines_ > 0 && !lines_.empty()) {
    lines_.push_front(
        {lines_.front().time_ms, "warning", std::to_string(std::exchange(dropped_lines_, 0)) + " lines were dropped here"});
  }
  while (!lines_.empty()) {
    rendezvous::LogBatch batch{link_.options().incarnation, log_job_, {}, ++log_batches_};
    for (size_t bytes = 0; !lines_.empty() && batch.lines.size() < kLinesPerBatch;) {
      bytes += size_of(lines_.front());
      if (bytes > kBytesPerBatch && !batch.lines.empty()) break;
      batch.lines.push_back(std::move(lines_.front()));
      lines_.pop_front();
    }
    letters.push_back({"/v1/workers/" + link_.options().worker + "/logs", rendezvous::json_text(batch)});
  }
  return letters;
}

void Outbox::send_all() {
  const auto client = link_.make_client();
  const Interrupt::Scope cancel(stop_, [&client](const std::string&) { client->cancel(); });
  auto next_logs = steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_.raised()) {
    changed_.wait_until(lock, next_logs, [this] { return stopping_ || has_letters(); });
    if (const auto now = steady_clock::now(); now >= next_logs || stopping_) {
      for (auto& letter : take_logs()) letters_.push_back(std::move(letter));
      next_logs = now + kLogInterval;
    }
    if (!has_letters() && stopping_) {
      done_ = true;
      return changed_.notify_all();
    }
    if (!has_letters()) continue;
    auto& next = faults_.empty() ? letters_ : faults_;
    const Letter letter = std::move(next.front());
    next.pop_front();
    const int64_t dropped = std::exchange(dropped_letters_, 0);
    lock.unlock();
    if (dropped > 0) spdlog::warn("{} events were dropped: the service was away for too long", dropped);
    if (letter.write) {
      for (std::string& body : letter.write()) add({letter.path, std::move(body)}, letters_);
    } else {
      send_letter(*client, letter);
    }
    lock.lock();
  }
}

void Outbox::send_letter(rendezvous::HttpClient& client, const Letter& letter) {
  const Delivery delivery = link_.deliver(client, letter.path, letter.body, stop_);
  if (delivery.how == Delivery::How::kRejected) {
    spdlog::warn("the service refused a message to {}: {} {}", letter.path, delivery.problem.title, delivery.problem.detail);
  }
}

}  // namespace holdfast::worker
