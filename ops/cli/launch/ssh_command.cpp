#include "ops/cli/launch/ssh_command.h"

#include <fmt/format.h>

namespace holdfast::ops {
namespace {

// One line, and no single quote in it: whatever shell a user has on the host hands it to sh as it is. $0 is the folder's part
// of the file names. The file that is locked is inherited by the worker and by the shell that waits for it.
constexpr const char* kFiles =
    R"sh(f=${XDG_STATE_HOME:-$HOME/.local/state}/holdfast/launch; umask 077; mkdir -p "$f" || exit 2; f=$f/$0; )sh";

constexpr const char* kKeep =
    R"sh(IFS= read -r HOLDFAST_TOKEN; export HOLDFAST_TOKEN; )sh"
    R"sh(command -v "$1" >/dev/null || { echo "$1 is not found on this host: install it, or say where it is with --worker_program" >&2; exit 2; }; )sh"
    R"sh(exec 9>>"$f.lock" || exit 2; )sh"
    R"sh(if ! flock -n 9; then echo "holdfast: found running"; )sh"
    R"sh(elif [ "$(cat "$f.status" 2>/dev/null)" != 0 ]; then rm -f "$f.status"; )sh"
    R"sh(setsid sh -c "\"\$@\" >>\"\$0.log\" 2>&1 & echo \$! >\"\$0.pid\"; wait \$!; echo \$? >\"\$0.status\"" "$f" "$@" </dev/null >/dev/null 2>&1 & )sh"
    R"sh(echo "holdfast: started"; fi; )sh"
    R"sh(exec 9>&-; flock "$f.lock" true; s=$(cat "$f.status" 2>/dev/null || echo 137); )sh"
    R"sh(if [ "$s" = 0 ]; then rm -f "$f.lock" "$f.status" "$f.pid" "$f.log"; else tail -n 3 "$f.log" >&2; fi; exit "$s")sh";

constexpr const char* kEnd =
    R"sh([ -e "$f.lock" ] || exit 0; exec 9>>"$f.lock"; flock -n 9 && exit 0; p=$(cat "$f.pid") || exit 1; )sh"
    R"sh(kill -TERM "$p"; flock -w 20 9 && exit 0; kill -KILL "$p"; flock -w 10 9)sh";

std::vector<std::string> ssh_command(const std::vector<std::string>& options, const std::string& address,
                                     const std::string& remote) {
  std::vector<std::string> command{"ssh"};
  command.insert(command.end(), options.begin(), options.end());
  // A connection of its own, which nobody else ends; one that carries nothing for 15 s is over.
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3",
                             "ControlMaster=no", "ControlPath=none", "ForwardX11=no", "ForwardAgent=no"}) {
    command.insert(command.end(), {"-o", option});
  }
  command.insert(command.end(), {"-T", "--", address, remote});
  return command;
}

}  // namespace

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<std::string> keep_command(const std::vector<std::string>& options, const std::string& address,
                                      const RemoteWorker& worker) {
  std::string remote = fmt::format("exec sh -c '{}{}' {}", kFiles, kKeep, quoted(worker.key));
  for (const std::string& word : worker.command) remote += " " + quoted(word);
  return ssh_command(options, address, remote);
}

std::vector<std::string> end_command(const std::vector<std::string>& options, const std::string& address,
                                     const RemoteWorker& worker) {
  return ssh_command(options, address, fmt::format("exec sh -c '{}{}' {}", kFiles, kEnd, quoted(worker.key)));
}

}  // namespace holdfast::ops
