#include "tests/sim/host.h"

#include <algorithm>
#include <utility>

#include "tests/sim/network.h"
#include "tests/sim/rules/rules.h"
#include "tests/sim/training/ring.h"

namespace holdfast::sim {

Host::Host(Surroundings& around, std::string name) : around_(around), name_(std::move(name)) {}

void Host::start() {
  if (up_) return;
  up_ = true;
  told_to_end_ = false;
  ++supervisor_;
  policy_ = worker::RestartPolicy{};
  begin_life();
}

void Host::begin_life() {
  born_ms_ = around_.time.now();
  troubled_for(0);
  lives_.push_back(std::make_unique<Process>(around_, *this, fmt::format("{}-{}", name_, lives_.size() + 1)));
  lives_.back()->start();
}

void Host::next_life(const std::string& how, bool report) {
  troubled_for(0);
  if (report) around_.network.tell(*this, rendezvous::WorkerLost{lives_.back()->incarnation(), how, {}});
  if (told_to_end_) {
    up_ = false;
    return;
  }
  const auto life = std::chrono::milliseconds(around_.time.now() - born_ms_);
  around_.time.after(policy_.after(life).count(), [this, supervisor = supervisor_] {
    if (up_ && supervisor == supervisor_) begin_life();
  });
}

void Host::kill_process() {
  Process* victim = process();
  if (victim == nullptr) return;
  around_.story.tell(name_, "{} is killed", victim->incarnation());
  victim->kill();
  next_life("killed by signal 9 (SIGKILL)", true);
}

void Host::kill_all() {
  if (!up_) return;
  around_.story.tell(name_, "the node goes down");
  if (Process* victim = process()) victim->kill();
  up_ = false;
  troubled_for(0);
}

void Host::terminate() {
  if (!up_) return;
  Process* running = process();
  if (running == nullptr) {  // between two lives
    up_ = false;
    return;
  }
  if (std::exchange(told_to_end_, true)) return;
  around_.story.tell(name_, "is told to end");
  running->terminate();
}

void Host::ended(worker::ExitCode code) {
  using worker::ExitCode;
  if (code == ExitCode::kDone || code == ExitCode::kConfiguration || code == ExitCode::kNameTaken) {
    up_ = false;
    return;
  }
  next_life("it ended", code != ExitCode::kFenced);
}

void Host::freeze() {
  Process* victim = process();
  if (victim == nullptr || victim->frozen()) return;
  around_.story.tell(name_, "{} freezes", victim->incarnation());
  troubled_for(0);
  victim->freeze();
}

void Host::thaw() {
  Process* frozen = process();
  if (frozen == nullptr || !frozen->frozen()) return;
  around_.story.tell(name_, "{} thaws", frozen->incarnation());
  troubled_for(0);
  frozen->thaw();
  around_.rings.poke();
}

void Host::set_link(Link link) {
  static constexpr const char* kWords[] = {"is sound", "does not send", "does not receive", "is cut"};
  if (link_ == link) return;
  around_.story.tell(name_, "the link to the service {}", kWords[static_cast<size_t>(link)]);
  troubled_for(0);
  link_ = link;
}

void Host::set_cut_from_peers(bool cut) {
  if (cut == cut_from_peers_) return;
  around_.story.tell(name_, "{}", cut ? "is cut off from the other workers" : "reaches the other workers again");
  troubled_for(0);
  cut_from_peers_ = cut;
  if (!cut) around_.rings.poke();
}

void Host::set_slowness(int64_t times) {
  if (slowness_ != times) around_.story.tell(name_, "computes {}", times > 1 ? "slowly" : "as fast as the others again");
  slowness_ = times;
}

void Host::troubled_for(int64_t ms) {
  troubled_until_ms_ = std::max(troubled_until_ms_, around_.time.now() + ms);
}

bool Host::well() const {
  return up_ && link_ == Link::kSound && !cut_from_peers_ && !lives_.empty() && lives_.back()->alive() &&
         !lives_.back()->frozen();
}

Process* Host::life(const std::string& incarnation) {
  const auto found = std::ranges::find_if(lives_, [&](const auto& life) { return life->incarnation() == incarnation; });
  return found == lives_.end() ? nullptr : found->get();
}

}  // namespace holdfast::sim
