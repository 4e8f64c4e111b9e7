#include "rendezvous/store/commit_faults.h"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <utility>

#include "rendezvous/text/fault_text.h"

namespace holdfast::rendezvous {
namespace {

using When = StoreMoment::When;

// "" or what is wrong.
std::string parse_setting(const FaultSetting& setting, CommitFault& fault) {
  const auto& [text, key, value] = setting;
  if (value.empty()) return fmt::format("\"{}\" is no key=value", text);
  if (key == "with") {
    fault.with = value;
  } else if (key == "once_file") {
    fault.once_file = value;
  } else if (key == "n") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), fault.n);
    if (error != std::errc() || end != value.data() + value.size() || fault.n < 1)
      return fmt::format("n must be a whole number from 1 on, not \"{}\"", value);
  } else {
    return fmt::format("\"{}\" is not with, n or once_file", key);
  }
  return "";
}

tl::expected<CommitFault, std::string> parse_fault(const FaultText& told) {
  const auto fail = [&](const std::string& what) {
    return tl::unexpected(told.error(what, "rendezvous/store/commit_faults.h"));
  };
  CommitFault fault;
  if (told.action != "kill" || (told.point != "before_commit" && told.point != "after_commit"))
    return fail("a service takes kill@before_commit and kill@after_commit");
  fault.when = told.point == "before_commit" ? When::kBeforeCommit : When::kAfterCommit;
  for (const FaultSetting& setting : told.settings) {
    if (const std::string wrong = parse_setting(setting, fault); !wrong.empty()) return fail(wrong);
  }
  return fault;
}

}  // namespace

tl::expected<std::vector<CommitFault>, std::string> parse_commit_faults(const std::string& text) {
  std::vector<CommitFault> faults;
  for (const FaultText& told : split_faults(text)) {
    auto fault = parse_fault(told);
    if (!fault) return tl::unexpected(fault.error());
    faults.push_back(std::move(*fault));
  }
  return faults;
}

CommitFaults::CommitFaults(std::vector<CommitFault> faults) {
  for (CommitFault& fault : faults) faults_.push_back({std::move(fault), 0});
}

std::vector<const CommitFault*> CommitFaults::due(const StoreMoment& moment) {
  std::vector<const CommitFault*> found;
  for (Counted& counted : faults_) {
    const CommitFault& fault = counted.fault;
    if (moment.when != fault.when || (!fault.with.empty() && !moment.written.contains(fault.with))) continue;
    if (++counted.seen == fault.n) found.push_back(&fault);
  }
  return found;
}

WatchedStore::OnMoment die_at(std::vector<CommitFault> faults) {
  return [counted = std::make_shared<CommitFaults>(std::move(faults))](const StoreMoment& moment) {
    bool dies = false;
    // All that are due have happened here: of those that share a commit, the others may never come again.
    for (const CommitFault* fault : counted->due(moment)) dies |= claim_once_file(fault->once_file);
    if (!dies) return;
    spdlog::warn("drill: SIGKILL to itself {} a commit", moment.when == When::kBeforeCommit ? "before" : "after");
    spdlog::default_logger()->flush();
    kill(getpid(), SIGKILL);
  };
}

}  // namespace holdfast::rendezvous
