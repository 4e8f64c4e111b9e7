#include "tests/sim/process.h"

#include <utility>

#include "tests/sim/host.h"

namespace holdfast::sim {
namespace {

constexpr int64_t kGraceMs = 5000;  // worker/process/training_process.cpp

}  // namespace

Process::Process(Surroundings& around, Host& host, const std::string& incarnation)
    : around_(around),
      host_(host),
      incarnation_(incarnation),
      client_(around, *this),
      reports_(around, *this),
      checkpoints_(around, *this),
      train_(around, *this) {}

const std::string& Process::name() const {
  return host_.name();
}

bool Process::cut_from_peers() const {
  return host_.cut_from_peers();
}

void Process::start() {
  around_.story.tell(name(), "starts as {}", incarnation_);
  client_.start();
  client_.publish(worker::status_of(lifecycle_, incarnation_));
}

void Process::kill() {
  if (!alive_) return;
  alive_ = false;
  held_.clear();
  train_.vanish();
}

void Process::freeze() {
  frozen_ = true;
}

void Process::thaw() {
  if (!frozen_) return;
  frozen_ = false;
  while (!held_.empty() && alive_ && !frozen_) {
    const auto what = std::move(held_.front());
    held_.pop_front();
    what();
  }
}

void Process::terminate() {
  run([this] {
    if (!lifecycle_.leaving) feed(worker::TerminationAsked{});
  });
}

void Process::end(worker::ExitCode code, const std::string& why) {
  if (!alive_) return;
  around_.story.tell(name(), "{} ends: {}", incarnation_, why);
  kill();
  host_.ended(code);
}

void Process::later(int64_t ms, std::function<void()> what) {
  around_.time.after(ms, [this, what = std::move(what)] { run(what); });
}

void Process::run(std::function<void()> what) {
  if (!alive_) return;
  if (frozen_ || !held_.empty()) return held_.push_back(std::move(what));
  what();
}

void Process::feed(const worker::Input& input) {
  for (const worker::Command& command : advance(lifecycle_, input)) {
    std::visit([this](const auto& what) { carry_out(what); }, command);
  }
  if (!alive_) return;
  watch_grace();
  client_.publish(worker::status_of(lifecycle_, incarnation_));
}

void Process::watch_grace() {
  const bool at_rest = lifecycle_.activity == worker::Lifecycle::Activity::kNone;
  if (!at_rest) grace_ = 0;
  if (!lifecycle_.leaving || !at_rest || grace_ > 0) return;
  static_assert(kGraceMs > 0);
  grace_ = around_.time.now() + 1;
  later(kGraceMs, [this, grace = grace_] {
    if (grace == grace_) feed(worker::GraceOver{});
  });
}

void Process::carry_out(const worker::StartPrepare& command) {
  train_.start(command);
}
void Process::carry_out(const worker::StartRun& command) {
  train_.start(command);
}
void Process::carry_out(const worker::StartRelease& command) {
  train_.start(command);
}
void Process::carry_out(const worker::AskYield& command) {
  train_.ask(command);
}
void Process::carry_out(const worker::InterruptTrain& command) {
  train_.interrupt(command.reason);
}
void Process::carry_out(const worker::ExitProcess& command) {
  later(0, [this, why = command.reason] { end(worker::ExitCode::kDone, why); });
}

}  // namespace holdfast::sim
