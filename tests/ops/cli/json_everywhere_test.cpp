// Every command has --json, and prints JSON with it. For commands that do not run here the test names the test that runs them;
// for commands without JSON it gives the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "ops/cli/command/command_tree.h"
#include "ops/cli/program.h"
#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;

// Commands that print no JSON, and why.
const std::map<std::string, std::string> kWithoutJson = {
    {"holdfast serve", "it runs until it is ended; /healthz says how it is"},
    {"holdfast serve-model", "it runs until it is ended"},
    {"holdfast serve-stage", "it runs until it is ended"},
    {"holdfast completion", "it prints a script for a shell"},
};
// Commands that need more than prepared answers, and the test that runs them with --json.
const std::map<std::string, std::string> kRunElsewhere = {
    {"holdfast ckpt ls", "checkpoint_commands_test"},
    {"holdfast ckpt verify", "checkpoint_commands_test"},
    {"holdfast ckpt mend", "tests/e2e/s3/test_two_places.py"},
    {"holdfast ckpt show", "checkpoint_commands_test"},
    {"holdfast ckpt export", "checkpoint_commands_test"},
    {"holdfast sample", "checkpoint_commands_test"},
    {"holdfast eval", "checkpoint_commands_test"},
    {"holdfast chaos", "chaos_command_test"},
    {"holdfast netcheck", "netcheck_test"},
    {"holdfast audit", "audit_test"},
    {"holdfast doctor", "doctor_test"},
    {"holdfast profile", "profile_command_test"},
    {"holdfast data push", "data/push_test"},
};
const std::map<std::string, std::vector<std::string>> kRuns = {
    {"holdfast submit", {"--train_data_path", "/d"}},
    {"holdfast ls", {}},
    {"holdfast show", {"j1"}},
    {"holdfast stop", {"j1"}},
    {"holdfast pause", {"j1"}},
    {"holdfast resume", {"j1"}},
    {"holdfast scale", {"j1", "2"}},
    {"holdfast logs", {"j1"}},
    {"holdfast events", {"j1"}},
    {"holdfast wait", {"j1"}},
    {"holdfast jobs ls", {}},
    {"holdfast jobs show", {"j1"}},
    {"holdfast jobs diff", {"j1", "j1"}},
    {"holdfast nodes", {}},
    {"holdfast drain", {"w1"}},
    {"holdfast checkpoints", {"j1"}},
    {"holdfast plan", {"--microbatch_s", "0.1"}},
    {"holdfast whoami", {}},
    {"holdfast tokens create", {"ci", "--role", "read"}},
    {"holdfast tokens ls", {}},
    {"holdfast tokens revoke", {"t1"}},
    {"holdfast webhooks create", {"https://e.org"}},
    {"holdfast webhooks ls", {}},
    {"holdfast webhooks rm", {"h1"}},
    {"holdfast data ls", {}},
    {"holdfast data rm", {"wiki"}},
    {"holdfast help", {}},
};

class JsonEverywhere : public Jobs {
 protected:
  void SetUp() override {
    const Json done = a_job("succeeded"), node = {{"id", "w1"}, {"state", "alive"}}, token = {{"id", "t1"}, {"name", "ci"}};
    service_.answer("POST /v1/jobs", done, 201);
    service_.answer("GET /v1/jobs", a_page("jobs", {done}));
    service_.answer("GET /v1/jobs/j1", done);
    for (const char* action : {"stop", "pause", "resume", "scale"})
      service_.answer(std::string("POST /v1/jobs/j1/") + action, done, 202);
    for (const char* list : {"logs", "events", "checkpoints"})
      service_.answer(std::string("GET /v1/jobs/j1/") + list, a_page(list, {{{"id", 1}, {"step", 20}}}));
    service_.answer("GET /v1/nodes", a_page("nodes", {node}));
    service_.answer("POST /v1/nodes/w1/drain", node, 202);
    service_.answer("GET /v1/whoami", {{"token", token}});
    service_.answer("GET /v1/tokens", a_page("tokens", {token}));
    service_.answer("POST /v1/tokens", {{"id", "t2"}, {"token", "secret"}}, 201);
    service_.answer("DELETE /v1/tokens/t1", Json::object());
    service_.answer("GET /v1/webhooks", a_page("webhooks", {{{"id", "h1"}}}));
    service_.answer("POST /v1/webhooks", {{"id", "h1"}, {"secret", "s"}}, 201);
    service_.answer("DELETE /v1/webhooks/h1", Json::object());
    service_.answer("GET /v1/data/sets", a_page("data_sets", {{{"name", "wiki"}}}));
    service_.answer("DELETE /v1/data/sets/wiki", Json::object());
  }

  void expect_json(const CLI::App& command) {
    const std::string name = full_name(&command);
    std::vector<std::string> words;
    std::istringstream parts(name.substr(name.find(' ') + 1));
    for (std::string part; parts >> part;) words.push_back(part);
    const std::vector<std::string>& arguments = kRuns.at(name);
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.emplace_back("--json");
    const bool asks = std::ranges::any_of(options_of(command), [](const CLI::Option* o) { return o->check_lname("server"); });
    const Said said = asks ? run(words) : holdfast(words);
    EXPECT_EQ(said.exit_code, 0) << name << ": " << said.err;
    EXPECT_FALSE(Json::parse(said.out, nullptr, false).is_discarded()) << name << " printed: " << said.out;
  }
};

TEST_F(JsonEverywhere, EveryCommandHasTheFlagAndPrintsJson) {
  Options options;
  const auto app = make_app(options);
  std::set<std::string> seen;
  const std::function<void(const CLI::App&)> walk = [&](const CLI::App& command) {
    for (const CLI::App* below : commands_below(command)) walk(*below);
    if (!commands_below(command).empty()) return;
    const std::string name = full_name(&command);
    seen.insert(name);
    if (kWithoutJson.contains(name)) return;
    EXPECT_NE(command.get_option_no_throw("--json"), nullptr) << name << " has no --json: give it one, or say here why not";
    if (kRuns.contains(name)) return expect_json(command);
    if (name == "holdfast data prepare" || name == "holdfast data info") return;
    EXPECT_TRUE(kRunElsewhere.contains(name)) << name << ": run it here with --json, or say which test does";
  };
  walk(*app);
  for (const auto& [name, arguments] : kRuns) EXPECT_TRUE(seen.contains(name)) << name << " is no command any more";
  for (const auto& [name, test] : kRunElsewhere) EXPECT_TRUE(seen.contains(name)) << name << " is no command any more";
}

TEST_F(JsonEverywhere, CommandsForDataPrintJson) {
  const fs::path folder = fs::temp_directory_path() / ("holdfast-json-" + std::to_string(getpid()));
  fs::create_directories(folder);
  {
    std::ofstream text(folder / "a.txt");
    for (int i = 0; i < 300; ++i) text << "The rope holds fast, number " << i << ".\n\n";
  }
  const Said prepared =
      holdfast({"data", "prepare", folder / "a.txt", "--output", folder / "out", "--tokenizer", "bytes", "--json"});
  EXPECT_EQ(prepared.exit_code, 0) << prepared.err;
  EXPECT_EQ(Json::parse(prepared.out)["files"], 1);
  const Said info = holdfast({"data", "info", folder / "out" / "train.bin", "--json"});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  EXPECT_GT(Json::parse(info.out)["tokens"], 1000);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace holdfast::ops
