// Help, mistakes and exit codes of every command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <functional>

#include "ops/cli/command/command_tree.h"
#include "ops/cli/program.h"
#include "rendezvous/protocol/job_spec.h"
#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using Json = nlohmann::json;

void walk(const CLI::App& command, std::vector<std::string> words,
          const std::function<void(const CLI::App&, const std::vector<std::string>&)>& visit) {
  for (const CLI::App* below : commands_below(command)) {
    auto longer = words;
    longer.push_back(below->get_name());
    visit(*below, longer);
    walk(*below, longer, visit);
  }
}

TEST(Usage, EveryCommandsHelpShowsAnExample) {
  Options options;
  const auto app = make_app(options);
  int seen = 0;
  walk(*app, {}, [&](const CLI::App& command, std::vector<std::string> words) {
    ++seen;
    words.emplace_back("--help");
    const Said said = holdfast(words);
    EXPECT_EQ(said.exit_code, 0) << full_name(&command);
    EXPECT_THAT(said.out, HasSubstr("Example:\n  " + full_name(&command)));
    EXPECT_NE(command.get_description(), "") << full_name(&command);
    if (words.size() == 2) {
      EXPECT_NE(command.get_group(), "Subcommands") << full_name(&command) << " stands under no heading of the program's help";
    }
  });
  EXPECT_GT(seen, 30);
  EXPECT_THAT(holdfast({"--help"}).out, HasSubstr("Example:\n  holdfast serve"));
  EXPECT_THAT(holdfast({"--version"}).out, MatchesRegex("holdfast 0\\.1\\.0( \\(commit [0-9a-f]+(\\+changes)?\\))?\n"));
}

TEST(Usage, EveryFlagAndArgumentSaysWhatItIs) {
  Options options;
  const auto app = make_app(options);
  walk(*app, {}, [&](const CLI::App& command, const std::vector<std::string>&) {
    for (const CLI::Option* option : options_of(command)) EXPECT_NE(option->get_description(), "") << full_name(&command);
    for (const CLI::Option* argument : arguments_of(command)) EXPECT_NE(argument->get_description(), "") << full_name(&command);
  });
}

TEST(Usage, SubmitsHelpHasEveryFieldOfTheSpec) {
  const std::string help = holdfast({"submit", "--help"}).out;
  for (const auto& field : rendezvous::job_spec_fields()) {
    EXPECT_THAT(help, HasSubstr("--" + field.name + " ")) << field.name;
    EXPECT_THAT(help, HasSubstr(field.help)) << field.name;
  }
}

TEST(Usage, MistakesAreNamedAndExit2) {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } mistakes[] = {
      {{}, "Name a command"},
      {{"subnit"}, "subnit: no such command; did you mean submit?"},
      {{"submit", "--learning_rat", "1"}, "--learning_rat: no such option; did you mean --learning_rate?"},
      {{"submit", "--learning-rat=1"}, "--learning_rat=1: no such option; did you mean --learning_rate?"},
      {{"ls", "--state", "runing"}, "; did you mean running?"},
      {{"logs", "j1", "--tail", "-1"}, "--tail"},
      {{"show", "j1", "--spec", "--watch"}, "--spec excludes --watch"},
      {{"jobs", "dif", "j1", "j2"}, "dif: no such command; did you mean diff?"},
      {{"ckpt"}, "Name a command"},
      {{"ckpt", "verfy", "x"}, "verfy: no such command; did you mean verify?"},
      {{"show"}, "job is required"},
      {{"show", "j1", "j2"}, "j2: one argument too many"},
      {{"sample", "--from", "job:j1", "--temperature", "-1"}, "--temperature"},
      {{"wait", "j1", "--timeout", "soon"}, "--timeout"},
      {{"submit", "--labels", "team"}, "expected KEY=VALUE"},
      {{"submit", "--requires", "hip"}, "--requires hip: expected KEY=VALUE, such as device=hip"},
      {{"submit", "--config", "/no/such/file"}, "/no/such/file: No such file"},
      {{"scale", "j1"}, "holdfast scale j1 3"},
      {{"data", "info", "/no/such/file.bin"}, "/no/such/file.bin"},
      {{"ckpt", "verify", "/no/such/folder"}, "/no/such/folder: no such folder"},
      {{"ckpt", "verify", "job:j1@x"}, "expected a step after @"},
  };
  for (const auto& mistake : mistakes) {
    const Said said = holdfast(mistake.arguments);
    EXPECT_EQ(said.exit_code, 2) << mistake.says;
    EXPECT_THAT(said.err, HasSubstr(mistake.says));
    EXPECT_EQ(said.out, "") << "errors go to stderr";
  }
}

TEST(Usage, WithoutAServiceExits3AndSaysWhatToDo) {
  std::string url;
  {
    const FakeService gone;
    url = gone.url();
  }
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"ls"},
                                             {"show", "j1"},
                                             {"submit"},
                                             {"wait", "j1"},
                                             {"events", "j1", "-f"},
                                             {"nodes"},
                                             {"ckpt", "ls", "j1"},
                                             {"ckpt", "export", "j1", "--format", "gguf", "--output", "x"},
                                             {"sample", "--from", "job:j1"}}) {
    auto arguments = command;
    arguments.insert(arguments.end(), {"--server", url});
    const Said said = holdfast(arguments);
    EXPECT_EQ(said.exit_code, 3) << command[0];
    EXPECT_THAT(said.err, HasSubstr("cannot reach the service at " + url)) << command[0];
    EXPECT_THAT(said.err, HasSubstr("holdfast serve")) << command[0];
  }
}

TEST(Usage, ExitCodesFollowTheServicesAnswer) {
  for (const auto& [status, exit_code] :
       std::map<int, int>{{400, 2}, {401, 4}, {403, 4}, {404, 2}, {409, 2}, {413, 2}, {422, 2}, {429, 2}, {500, 3}, {503, 3}}) {
    FakeService service;
    service.problem("POST /v1/jobs/j1/stop", status, "because");
    const Said said = holdfast({"stop", "j1", "--server", service.url()});
    EXPECT_EQ(said.exit_code, exit_code) << status;
    EXPECT_THAT(said.err, HasSubstr("because"));
  }
}

TEST(Usage, AnotherServerThanAServiceIsNoticed) {
  FakeService service;
  service.answer_text("GET /v1/jobs", "<html>hello</html>");
  const Said said = holdfast({"ls", "--server", service.url()});
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("is --server right?"));
}

TEST(Usage, TheServerAndTokenComeFromFlagsElseTheEnvironment) {
  FakeService service, other;
  for (FakeService* one : {&service, &other})
    one->answer("GET /v1/jobs", {{"jobs", Json::array()}, {"next_page_token", nullptr}});
  setenv("HOLDFAST_SERVER", service.url().c_str(), 1);
  setenv("HOLDFAST_TOKEN", "from-outside", 1);
  EXPECT_EQ(holdfast({"ls"}).exit_code, 0);
  EXPECT_EQ(holdfast({"--server", other.url(), "ls"}).exit_code, 0) << "before the command, too";
  EXPECT_EQ(holdfast({"ls", "--server", other.url(), "--token", "given"}).exit_code, 0);
  unsetenv("HOLDFAST_SERVER");
  unsetenv("HOLDFAST_TOKEN");
  EXPECT_EQ(service.requests("GET /v1/jobs").at(0).headers.at("authorization"), "Bearer from-outside");
  ASSERT_EQ(other.requests("GET /v1/jobs").size(), 2U);
  EXPECT_EQ(other.requests("GET /v1/jobs").at(1).headers.at("authorization"), "Bearer given");
}

}  // namespace
}  // namespace holdfast::ops
