#include "worker/drills/drills.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "rendezvous/text/errno_text.h"

namespace holdfast::worker {
namespace {

constexpr int64_t kSlowMs = 100;

bool is_there(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

}  // namespace

Drills::Drills(std::string folder, const std::string& worker) : prefix_(std::move(folder) + "/" + worker + ".") {}

tl::expected<void, std::string> Drills::consent() const {
  const std::string path = of_worker("consents");
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) {
    return tl::unexpected("--drills: cannot make " + path + ": " + rendezvous::describe_errno(errno) +
                          ": give the worker the right to write there, or start it without --drills");
  }
  close(file);
  return {};
}

FaultRule Drills::slow_rule() const {
  FaultRule rule{};
  rule.action = FaultRule::Action::kSlow;
  rule.point = "step";
  rule.ms = kSlowMs;
  rule.while_file = of_worker("slow");
  return rule;
}

bool Drills::is_cut() const {
  return is_there(of_worker("cut"));
}

bool Drills::is_to_corrupt() const {
  return is_there(of_worker("corrupt"));
}

void Drills::note_corrupted() const {
  unlink(of_worker("corrupt").c_str());
}

}  // namespace holdfast::worker
