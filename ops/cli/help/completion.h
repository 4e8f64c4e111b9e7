// Completion: the words that may come next on an unfinished command line. The shells' scripts ask for them at each TAB.
//
// Promises: everything is read from the CLI11 app itself, so a new command, flag or choice is completed without a line here.
// Job and worker names come from the service, within a short time or not at all. Nothing is ever said on stderr, and the exit
// code is 0: a person is in the middle of typing.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "ops/cli/command/command.h"

namespace holdfast::ops {

// `holdfast __complete WORD...`: the words typed so far, the last one being the one under the cursor, perhaps "". Prints a
// candidate a line, with its help behind a tab, and a last line :none, :files or :dirs that says what the shell adds.
inline constexpr const char* kCompleteWord = "__complete";
int print_completions(CLI::App& app, Options& options, const std::vector<std::string>& words);

struct Candidate {
  std::string word, help;
  bool operator==(const Candidate&) const = default;
};
struct Completions {
  enum class Files : uint8_t { kNone, kFiles, kDirectories } files = Files::kNone;
  std::vector<Candidate> candidates;
};
// Names that only the service knows, of "JOB", "WORKER" or "DATASET".
using AskService = std::function<std::vector<Candidate>(const std::string& kind)>;
// Options of the service among the words (--server, --token) take effect: they are written into the variables they are bound
// to.
Completions completions_of(CLI::App& app, std::vector<std::string> words, const AskService& ask);

// The script for "bash", "zsh" or "fish".
std::string completion_script(const std::string& shell);

}  // namespace holdfast::ops
