// Help topics, fields of the job spec, and the manual page. tests/ops/test_manual_page.py tests the page with groff.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <functional>
#include <set>
#include <sstream>

#include "ops/cli/command/command_tree.h"
#include "ops/cli/help/manual_page.h"
#include "ops/cli/help/topics.h"
#include "ops/cli/program.h"
#include "ops/cli/terminal/text_width.h"
#include "tests/ops/cli/cli_runner.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Help, OfTheJobSpecHasEveryFieldUnderItsGroup) {
  const std::string text = holdfast({"help", "job_spec"}).out;
  size_t at = 0;
  std::string group;
  for (const auto& field : rendezvous::job_spec_fields()) {
    if (field.group != group) at = text.find("\n" + field.group + "\n", at);
    ASSERT_NE(at, std::string::npos) << field.group;
    group = field.group;
    at = text.find("\n  " + field.name + "  " + field.type, at);
    ASSERT_NE(at, std::string::npos) << field.name;
  }
  EXPECT_EQ(holdfast({"help", "job-spec"}).out, text);
}

TEST(Help, LinesFitTheWidthThatIsAskedFor) {
  for (const HelpTopic& topic : help_topics()) {
    std::istringstream lines(text_of(topic, 60, false));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 60U) << line;
  }
}

TEST(Help, OfAFieldSaysHowToGiveIt) {
  const std::string text = holdfast({"help", "batch_size"}).out;
  for (const char* part :
       {"integer; 1 to 65536; default: 4", "Sequences in a microbatch", "--batch_size", "\"batch_size\": INT"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(holdfast({"help", "train-data-path"}).out, HasSubstr("required"));
}

TEST(Help, OfTheEnvironmentNamesWhatGuidesExportWhetherItIsReadOrNot) {
  const std::string text = holdfast({"help", "environment"}).out;
  for (const char* variable :
       {"NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_DEBUG", "NCCL_BUFFSIZE", "NCCL_TIMEOUT", "TORCH_DISTRIBUTED_DEBUG",
        "MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "SLURM_LOCALID", "WORLD_SIZE"})
    EXPECT_THAT(text, HasSubstr(variable));
}

TEST(Help, OfACommandIsItsHelpAndACommonNameHasBothHelps) {
  EXPECT_EQ(holdfast({"help", "ckpt", "verify"}).out, holdfast({"ckpt", "verify", "--help"}).out);
  const std::string nodes = holdfast({"help", "nodes"}).out;
  EXPECT_THAT(nodes, HasSubstr("Usage: holdfast nodes"));
  EXPECT_THAT(nodes, HasSubstr("Nominal number of workers"));
}

TEST(Help, AloneListsCommandsAndTopics) {
  const std::string text = holdfast({"help"}).out;
  for (const char* part : {"Jobs:", "submit", "holdfast help job_spec", "holdfast help environment"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Help, OfAnUnknownTopicNamesSimilarOnes) {
  const Said said = holdfast({"help", "exit_cods"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("exit_cods"));
  EXPECT_THAT(said.err, HasSubstr("did you mean exit_codes?"));
}

TEST(Help, IsAlsoJson) {
  const Json all = Json::parse(holdfast({"help", "--json"}).out);
  EXPECT_EQ(all["topics"].size(), help_topics().size());
  const Json submit = Json::parse(holdfast({"help", "submit", "--json"}).out)["command"];
  Json dtype;
  for (const Json& option : submit["options"]) {
    if (option["names"] == Json::array({"--dtype"})) dtype = option;
  }
  EXPECT_EQ(dtype["choices"], Json::array({"float32", "bfloat16", "float16"}));
  EXPECT_EQ(Json::parse(holdfast({"help", "batch_size", "--json"}).out)["topic"]["topic"], "batch_size");
}

TEST(ManualPage, HasEveryCommandFlagAndTopic) {
  Options options;
  const auto app = make_app(options);
  const std::string page = manual_page(*app);
  const std::function<void(const CLI::App&)> walk = [&](const CLI::App& command) {
    for (const CLI::App* below : commands_below(command)) walk(*below);
    if (!commands_below(command).empty()) return;
    EXPECT_THAT(page, HasSubstr(".SS \"" + full_name(&command) + "\"\n"));
    for (const CLI::Option* option : options_of(command)) {
      std::string flag = names_of(*option).back();
      for (size_t at = 0; (at = flag.find('-', at)) != std::string::npos; at += 2) flag.replace(at, 1, "\\-");
      if (flag != "\\-\\-help") {
        EXPECT_THAT(page, HasSubstr(flag)) << full_name(&command);
      }
    }
  };
  walk(*app);
  for (const char* section : {"NAME\n", "SYNOPSIS\n", "\"JOB SPEC\"\n", "\"ENVIRONMENT\"\n", "\"EXIT CODES\"\n", "\"FILES\"\n"})
    EXPECT_THAT(page, HasSubstr(std::string(".SH ") + section));
  EXPECT_EQ(holdfast({"help", "--man"}).out, page);
  EXPECT_EQ(Json::parse(holdfast({"help", "--man", "--json"}).out)["text"], page);
}

// CLI11 of Debian 13 refuses a program where one has.
TEST(CommandTree, NoArgumentHasTheNameOfAnOption) {
  Options options;
  const auto app = make_app(options);
  const std::function<void(const CLI::App&)> walk = [&](const CLI::App& command) {
    for (const CLI::App* below : commands_below(command)) walk(*below);
    for (const CLI::Option* argument : arguments_of(command)) {
      for (const CLI::Option* option : command.get_options())
        EXPECT_FALSE(option->check_lname(argument->get_name(true))) << full_name(&command) << " " << argument->get_name(true);
    }
  };
  walk(*app);
}

TEST(ManualPage, NoLineOfTextLooksLikeARoffRequest) {
  Options options;
  std::istringstream lines(manual_page(*make_app(options)));
  const std::set<std::string> macros = {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BI",
                                        ".I",  ".RS", ".RE", ".nf", ".fi", ".br"};
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(line.empty()) << "an empty line is a gap in the page";
    if (line.starts_with('.')) {
      EXPECT_TRUE(macros.contains(line.substr(0, line.find(' ')))) << line;
    }
    EXPECT_FALSE(line.starts_with('\'')) << line;
    for (const unsigned char c : line) EXPECT_LT(c, 0x80) << line;
  }
}

}  // namespace
}  // namespace holdfast::ops
