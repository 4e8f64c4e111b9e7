#include "rendezvous/commit_faults.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <utility>

namespace holdfast::rendezvous {
namespace {

using When = StoreMoment::When;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// "" or what is wrong.
std::string parse_setting(const std::string& setting, CommitFault& fault) {
  const size_t at = setting.find('=');
  const std::string key = setting.substr(0, at), value = at == std::string::npos ? "" : setting.substr(at + 1);
  if (value.empty()) return fmt::format("\"{}\" is no key=value", setting);
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

tl::expected<CommitFault, std::string> parse_fault(const std::string& text) {
  const auto fail = [&](const std::string& what) {
    return tl::unexpected(fmt::format("HOLDFAST_FAULT: in \"{}\": {} (see rendezvous/commit_faults.h)", text, what));
  };
  const auto parts = split(text, ':');
  CommitFault fault;
  if (parts[0] != "kill@before_commit" && parts[0] != "kill@after_commit")
    return fail("a service takes kill@before_commit and kill@after_commit");
  fault.when = parts[0] == "kill@before_commit" ? When::kBeforeCommit : When::kAfterCommit;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (const std::string wrong = parse_setting(parts[i], fault); !wrong.empty()) return fail(wrong);
  }
  return fault;
}

bool is_first(const std::string& once_file) {
  if (once_file.empty()) return true;
  const int file = open(once_file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return false;
  close(file);
  return true;
}

}  // namespace

tl::expected<std::vector<CommitFault>, std::string> parse_commit_faults(const std::string& text) {
  std::vector<CommitFault> faults;
  for (const std::string& part : split(text, ',')) {
    auto fault = parse_fault(part);
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
    for (const CommitFault* fault : counted->due(moment)) dies |= is_first(fault->once_file);
    if (!dies) return;
    spdlog::warn("drill: SIGKILL to itself {} a commit", moment.when == When::kBeforeCommit ? "before" : "after");
    spdlog::default_logger()->flush();
    kill(getpid(), SIGKILL);
  };
}

}  // namespace holdfast::rendezvous
