// Plays the stories of a folder, and compares the lines that follow with the lines in the stories.
//
//   scenarios_test FOLDER [NAME…]             fails with the difference, if there is one
//   scenarios_test --rewrite FOLDER [NAME…]   writes the new lines into the stories, for a person to read before a commit
//
// A story is a text. Lines that begin with "> " are commands (commands.cpp). The indented lines below are the consequences: the
// time in seconds, then an event or a worker's new directive. All other lines are for the reader and stay as they are.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/scenarios/stage.h"

namespace holdfast::scenarios {
namespace {

using Lines = std::vector<std::string>;

Lines read_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Plays a story. Returns its text with the lines that follow now.
Lines play(const Lines& script, const std::string& folder) {
  Stage stage(folder);
  Lines played;
  for (const std::string& line : script) {
    if (line.starts_with("    ")) continue;  // consequences when the story was written
    played.push_back(line);
    if (!line.starts_with("> ")) continue;
    stage.perform(line.substr(2));
    for (const std::string& said : stage.take_lines()) played.push_back("    " + said);
  }
  return played;
}

// The smallest difference from `before` to `after`: the longest common subsequence of lines stays.
Lines difference(const Lines& before, const Lines& after) {
  const size_t n = before.size(), m = after.size();
  std::vector<std::vector<int>> common(n + 1, std::vector<int>(m + 1, 0));
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;)
      common[i][j] = before[i] == after[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  }
  Lines text;
  for (size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && before[i] == after[j]) {
      text.push_back("  " + before[i]);
      ++i, ++j;
    } else if (i < n && (j == m || common[i + 1][j] >= common[i][j + 1])) {
      text.push_back("- " + before[i++]);
    } else {
      text.push_back("+ " + after[j++]);
    }
  }
  return text;
}

bool tell(const std::filesystem::path& path, bool rewrite) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("holdfast-story-{}-{}", getpid(), path.stem().string())).string();
  const Lines written = read_lines(path);
  Lines played;
  try {
    played = play(written, folder);
  } catch (const std::exception& error) {
    fmt::print("{}: {}\n", path.string(), error.what());
    return false;
  }
  if (played == written) {
    fmt::print("{}: as written\n", path.filename().string());
    return true;
  }
  if (rewrite) {
    std::ofstream file(path, std::ios::trunc);
    for (const std::string& line : played) file << line << "\n";
    fmt::print("{}: written anew\n", path.filename().string());
    return static_cast<bool>(file.flush());
  }
  fmt::print("{}: goes otherwise now (- as written, + as it goes; --rewrite takes it):\n", path.string());
  for (const std::string& line : difference(written, played)) fmt::print("{}\n", line);
  return false;
}

int run(Lines arguments) {
  spdlog::set_level(spdlog::level::off);
  const bool rewrite = std::erase(arguments, "--rewrite") > 0;
  if (arguments.empty()) {
    fmt::print(stderr, "usage: scenarios_test [--rewrite] FOLDER [NAME…]\n");
    return 2;
  }
  std::vector<std::filesystem::path> stories;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[0])) {
    const bool asked = arguments.size() == 1 || std::ranges::find(arguments, entry.path().stem().string()) != arguments.end();
    if (entry.path().extension() == ".txt" && entry.path().filename() != "CMakeLists.txt" && asked)
      stories.push_back(entry.path());
  }
  std::ranges::sort(stories);
  if (stories.empty()) {
    fmt::print(stderr, "there is no such story in {}\n", arguments[0]);
    return 2;
  }
  const auto failed = std::ranges::count_if(stories, [&](const auto& story) { return !tell(story, rewrite); });
  fmt::print("{} of {} stories go as they are written\n", stories.size() - failed, stories.size());
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace holdfast::scenarios

int main(int argc, char** argv) {
  return holdfast::scenarios::run({argv + 1, argv + argc});
}
