// The words that TAB offers, from the command line itself. tests/ops/test_completion.py tests the shells' side.
#include "ops/cli/help/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "ops/cli/command/command_tree.h"
#include "ops/cli/program.h"
#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class Completion : public ::testing::Test {
 protected:
  Completions all(std::vector<std::string> words) {
    options_ = Options();
    app_ = make_app(options_);
    asked_.clear();
    return completions_of(*app_, std::move(words), [this](const std::string& kind) {
      asked_.push_back(kind);
      return kind == "JOB" ? std::vector<Candidate>{{"j1", "demo, running"}, {"demo", "j1"}, {"j2", "queued"}}
                           : std::vector<Candidate>{{"w1", "alive"}, {"node7", "alive"}};
    });
  }
  std::vector<std::string> words(std::vector<std::string> typed) {
    std::vector<std::string> found;
    for (const Candidate& candidate : all(std::move(typed)).candidates) found.push_back(candidate.word);
    return found;
  }
  Options options_;
  std::unique_ptr<CLI::App> app_;
  std::vector<std::string> asked_;
};

TEST_F(Completion, OfCommands) {
  EXPECT_THAT(words({"su"}), ElementsAre("submit"));
  EXPECT_THAT(words({""}), IsSupersetOf({"submit", "ls", "jobs", "ckpt", "tokens", "help"}));
  EXPECT_THAT(words({"ckpt", ""}), UnorderedElementsAre("ls", "verify", "mend", "show", "export"));
  EXPECT_THAT(words({"jobs", "d"}), ElementsAre("diff"));
  EXPECT_THAT(words({"completion", ""}), UnorderedElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(asked_, IsEmpty()) << "the service is asked when a name is wanted, only";
}

TEST_F(Completion, OfFlagsAndTheirChoices) {
  EXPECT_THAT(words({"submit", "--dt"}), ElementsAre("--dtype"));
  EXPECT_THAT(words({"submit", "--dtype", ""}), ElementsAre("float32", "bfloat16", "float16"));
  EXPECT_THAT(words({"submit", "--dtype=f"}), ElementsAre("--dtype=float32", "--dtype=float16"));
  EXPECT_THAT(words({"submit", "--reduction", "e"}), ElementsAre("exact"));
  EXPECT_THAT(words({"ls", "--state", "wai"}), ElementsAre("waiting"));
  EXPECT_THAT(words({"logs", "j1", "--level", "w"}), ElementsAre("warning"));
  EXPECT_THAT(words({"wait", "j1", "--for", "s"}), ElementsAre("step="));
  EXPECT_THAT(words({"submit", "--learning-r"}), ElementsAre("--learning-rate")) << "hyphens for those who type hyphens";
  EXPECT_THAT(words({"submit", "--learning_r"}), ElementsAre("--learning_rate"));
  EXPECT_THAT(words({"submit", "--nope", ""}), Not(IsEmpty())) << "an unknown flag does not end it";
}

TEST_F(Completion, AFlagThatIsThereIsNotOfferedAgainUnlessItMayRepeat) {
  EXPECT_THAT(words({"submit", "--dtype", "float32", "--d"}), Not(Contains("--dtype")));
  EXPECT_THAT(words({"submit", "--labels", "a=b", "--l"}), Contains("--labels"));
  EXPECT_THAT(words({"show", "j1", ""}), Contains("--watch")) << "flags, when there is nothing else to say";
}

TEST_F(Completion, OfJobsAndWorkers) {
  EXPECT_THAT(words({"show", ""}), ElementsAre("j1", "demo", "j2"));
  EXPECT_THAT(words({"show", "de"}), ElementsAre("demo"));
  EXPECT_THAT(asked_, ElementsAre("JOB"));
  EXPECT_THAT(words({"show", "--json", "j"}), ElementsAre("j1", "j2"));
  EXPECT_THAT(words({"wait", "j1", "j2", "d"}), ElementsAre("demo")) << "as many as one likes";
  EXPECT_THAT(words({"jobs", "diff", "j1", "j"}), ElementsAre("j1", "j2"));
  EXPECT_THAT(words({"drain", "n"}), ElementsAre("node7"));
  EXPECT_THAT(words({"logs", "j1", "--worker", "w"}), ElementsAre("w1"));
  EXPECT_THAT(words({"submit", "--resume_from", "job:j"}), ElementsAre("job:j1", "job:j2"));
  EXPECT_THAT(words({"submit", "--resume_from", "l"}), ElementsAre("latest"));
  EXPECT_THAT(words({"ckpt", "verify", "job:d"}), ElementsAre("job:demo"));
}

TEST_F(Completion, OfFilesIsLeftToTheShell) {
  EXPECT_EQ(all({"submit", "--config", ""}).files, Completions::Files::kFiles);
  EXPECT_EQ(all({"submit", "--train_data_path=d"}).files, Completions::Files::kFiles);
  EXPECT_EQ(all({"data", "prepare", "a", "b"}).files, Completions::Files::kFiles);
  EXPECT_EQ(all({"data", "prepare", "--output", ""}).files, Completions::Files::kDirectories);
  EXPECT_EQ(all({"submit", "--seed", ""}).files, Completions::Files::kNone);
}

TEST_F(Completion, OfHelpTopics) {
  EXPECT_THAT(words({"help", "job_"}), ElementsAre("job_spec"));
  EXPECT_THAT(words({"help", "batch"}), ElementsAre("batch_size"));
  EXPECT_THAT(words({"help", "subm"}), ElementsAre("submit"));
}

TEST_F(Completion, AsksTheServiceThatTheLineNames) {
  all({"show", "--server", "http://elsewhere:1", "--token=secret", ""});
  EXPECT_EQ(options_.server, "http://elsewhere:1");
  EXPECT_EQ(options_.token, "secret");
}

// The test reads the list of commands, so it covers new ones: every command, every flag and every flag's choices.
TEST_F(Completion, OffersEveryCommandFlagAndChoice) {
  const std::function<void(const CLI::App&, std::vector<std::string>)> walk = [&](const CLI::App& command,
                                                                                  std::vector<std::string> path) {
    for (const CLI::App* below : commands_below(command)) {
      auto typed = path;
      typed.push_back(below->get_name());
      EXPECT_THAT(words(typed), Contains(below->get_name()));
      walk(*below, typed);
    }
    for (const CLI::Option* option : options_of(command)) {
      const std::string flag = names_of(*option).back();
      auto typed = path;
      typed.push_back(flag);
      EXPECT_THAT(words(typed), Contains(flag)) << full_name(&command);
      typed.emplace_back();
      const std::vector<std::string> choices = choices_of(*option);
      if (!choices.empty()) {
        EXPECT_THAT(words(typed), IsSupersetOf(choices)) << full_name(&command) << " " << flag;
      }
    }
  };
  Options options;
  const auto app = make_app(options);
  walk(*app, {});
}

TEST(CompletionWords, ComeFromTheServiceWithTheirHelp) {
  FakeService service;
  service.answer("GET /v1/jobs", {{"jobs",
                                   {{{"id", "j2"}, {"name", "demo"}, {"state", "running"}, {"step", 4}, {"total_steps", 9}},
                                    {{"id", "j1"}, {"name", "demo"}, {"state", "failed"}, {"step", 1}, {"total_steps", 9}}}},
                                  {"next_page_token", nullptr}});
  service.answer("GET /v1/nodes", {{"nodes", {{{"id", "w1"}, {"state", "alive"}, {"device", "cpu"}}}}});
  EXPECT_EQ(holdfast({"__complete", "show", "--server", service.url(), ""}).out,
            "j2\tdemo, running, step 4/9\ndemo\tj2, running, step 4/9\nj1\tdemo, failed, step 1/9\n:none\n");
  EXPECT_EQ(holdfast({"__complete", "drain", "--server", service.url(), ""}).out, "w1\talive, cpu\n:none\n");
  EXPECT_EQ(holdfast({"__complete", "data", "info", ""}).out, ":files\n");
  service.answer(
      "GET /v1/data/sets",
      {{"data_sets", {{{"name", "wiki"}, {"tokens", 5000}, {"pushed_at", "2026-01-02T03:04:05Z"}}, {{"name", nullptr}}}}});
  const std::string wiki = "wiki\t5,000 tokens, pushed 2026-01-02 03:04:05\n";
  EXPECT_EQ(holdfast({"__complete", "data", "rm", "--server", service.url(), ""}).out, wiki + ":none\n");
  EXPECT_EQ(holdfast({"__complete", "submit", "--server", service.url(), "--train_data_path", ""}).out,
            "data:" + wiki + ":files\n");
}

TEST(CompletionWords, AreNoneAndWithoutAMessageWhenThereIsNoService) {
  std::string gone;
  {
    const FakeService service;
    gone = service.url();
  }
  FakeService refusing;
  refusing.problem("GET /v1/jobs", 401, "who are you?");
  FakeService other;
  other.answer_text("GET /v1/jobs", "<html>");
  for (const std::string& url : {gone, refusing.url(), other.url()}) {
    const Said said = holdfast({"__complete", "show", "--server", url, ""});
    EXPECT_EQ(said.exit_code, 0);
    EXPECT_EQ(said.out, ":none\n");
    EXPECT_EQ(said.err, "");
  }
  EXPECT_EQ(holdfast({"__complete"}).exit_code, 0);
  EXPECT_EQ(holdfast({"__complete", "serve", "--nonsense=", "--", "x", ""}).err, "");
}

TEST(CompletionScripts, ExistForEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Said said = holdfast({"completion", shell});
    EXPECT_EQ(said.exit_code, 0);
    EXPECT_THAT(said.out, HasSubstr("__complete"));
  }
  EXPECT_EQ(holdfast({"completion", "powershell"}).exit_code, 2);
}

}  // namespace
}  // namespace holdfast::ops
