// Hosts as people write them, the command lines that start workers there, and what is refused before anything is submitted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ops/cli/launch/child_process.h"
#include "ops/cli/launch/hosts.h"
#include "ops/cli/launch/slurm.h"
#include "ops/cli/launch/ssh_command.h"
#include "tests/ops/cli/cli_runner.h"

namespace holdfast::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Launch, HostsAreNamedWithTheNumberOfTheirWorkers) {
  EXPECT_THAT(*parse_hosts("a,b:4,me@c,[fd00::1]:2,fd00::2"),
              ElementsAre(Host{"a", 1}, Host{"b", 4}, Host{"me@c", 1}, Host{"[fd00::1]", 2}, Host{"fd00::2", 1}));
  EXPECT_THAT(*parse_hosts("a,b,a:2"), ElementsAre(Host{"a", 3}, Host{"b", 1})) << "as mpirun counts them";
  for (const char* wrong : {"", "a,,b", "a:0", "a:x", "a:9999", "-oProxyCommand=x", "a b", "a;b", "$(a)"})
    EXPECT_FALSE(parse_hosts(wrong)) << wrong;
  EXPECT_THAT(parse_hosts("a,-o").error(), HasSubstr("\"-o\" is no host"));
}

TEST(Launch, AHostFileIsThatOfMpirun) {
  EXPECT_THAT(*parse_host_file("# my hosts\n\nnode1 slots=4 max_slots=8\nnode2:2   # the small one\n  node3\n"),
              ElementsAre(Host{"node1", 4}, Host{"node2", 2}, Host{"node3", 1}));
  EXPECT_THAT(parse_host_file("node1\nnode2 slots=none\n").error(), HasSubstr("line 2: \"slots=none\": expected slots=N"));
  EXPECT_THAT(parse_host_file("# none\n").error(), HasSubstr("there is no host in it"));
}

TEST(Launch, WorkersAreDealtToTheFirstPlaces) {
  EXPECT_THAT(*seats_on(*parse_hosts("me@a.lan,b:4"), 3),
              ElementsAre(Seat{"me@a.lan", "a.lan"}, Seat{"b", "b-0"}, Seat{"b", "b-1"}));
  EXPECT_THAT(seats_on(*parse_hosts("a,b"), 3).error(), HasSubstr("3 workers are asked for, and the hosts take 2"));
}

TEST(Launch, OptionsAreWordsAndQuotesKeepBlanks) {
  EXPECT_THAT(*words_of(" -p 2222 -i 'a key' --x=\"b c\" ''"), ElementsAre("-p", "2222", "-i", "a key", "--x=b c", ""));
  EXPECT_FALSE(words_of("it's"));
}

TEST(Launch, SshIsAskedNothingAndTheUsersOptionsComeFirst) {
  const RemoteWorker worker{"j1-17-a", {"holdfast-worker", "--name", "it's a"}};
  const auto command = keep_command({"-p", "2222"}, "me@a", worker);
  EXPECT_THAT(std::vector<std::string>(command.begin(), command.begin() + 3), ElementsAre("ssh", "-p", "2222"));
  EXPECT_THAT(command, testing::Contains("BatchMode=yes"));
  EXPECT_EQ(command[command.size() - 2], "me@a");
  EXPECT_EQ(command[command.size() - 3], "--");
  EXPECT_THAT(command.back(), HasSubstr("'j1-17-a' 'holdfast-worker' '--name' 'it'\\''s a'"));
}

TEST(Launch, SbatchGetsNodesAndTasksAndTheUsersOptionsLast) {
  SlurmRequest request;
  request.job = "j3";
  request.token = "secret";
  request.nodes = 2;
  request.workers_per_node = 4;
  request.options = {"--partition=gpu"};
  EXPECT_THAT(sbatch_command(request), ElementsAre("sbatch", "--parsable", "--job-name=holdfast-j3", "--nodes=2",
                                                   "--ntasks-per-node=4", "--partition=gpu"));
  EXPECT_THAT(kBatchScript, HasSubstr("#SBATCH --no-kill\n"));
}

TEST(Launch, AProgramGetsItsInputAndSaysLinesAndTellsHowItEnded) {
  ChildProcess child({"sh", "-c", "cat; echo \"$GREETING\" >&2; exit 3"}, "in\n", {"GREETING=hello"});
  std::vector<std::string> lines;
  while (!child.status()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (const std::string& line : child.take_lines()) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre("in", "hello"));
  EXPECT_EQ(child.status(), 3);
  EXPECT_THAT(run_to_end({"/nonexistent/program"}, std::chrono::seconds(20)).text, HasSubstr("No such file"));
  EXPECT_EQ(run_to_end({"sleep", "100"}, std::chrono::milliseconds(50)).status, 124);
}

// The whole input is read, also one that is longer than a page.
TEST(Launch, AProgramThatReadsNothingDisturbsNobody) {
  EXPECT_EQ(run_to_end({"true"}, std::chrono::seconds(20), std::string(60'000, 'x')).status, 0);
  EXPECT_EQ(run_to_end({"wc", "-c"}, std::chrono::seconds(20), std::string(60'000, 'x')).text, "60000\n");
}

TEST(Launch, WhatIsWrongIsRefusedBeforeAnythingIsSubmitted) {
  const auto refused = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"submit", "--train_data_path", "x", "--server", "http://127.0.0.1:1"});
    const Said said = holdfast(words);
    EXPECT_EQ(said.exit_code, 2) << said.err;
    return said.err;
  };
  EXPECT_THAT(refused({"--launch", "ssh"}), HasSubstr("on which hosts?"));
  EXPECT_THAT(refused({"--launch", "ssh", "--hosts", "a,b", "--nodes", "3"}), HasSubstr("the hosts take 2"));
  EXPECT_THAT(refused({"--launch", "ssh", "--hosts", "a"}), HasSubstr("do not reach the service at http://127.0.0.1:1"));
  EXPECT_THAT(refused({"--launch", "ssh", "--hostfile", "/nonexistent"}),
              HasSubstr("--hostfile /nonexistent: it cannot be read"));
  EXPECT_THAT(refused({"--launch", "slurm", "--hosts", "a"}), HasSubstr("Slurm chooses the hosts"));
  EXPECT_THAT(refused({"--launch", "rsh"}), HasSubstr("slurm"));
  EXPECT_THAT(refused({"--hosts", "a"}), HasSubstr("--launch"));
}

}  // namespace
}  // namespace holdfast::ops
