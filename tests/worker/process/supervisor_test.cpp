// The supervisor with a shell in place of the training process.
#include "worker/process/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "worker/link/exit_codes.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;

TEST(RestartPolicy, ForgivesTheFirstAccidentThenDoublesThePause) {
  RestartPolicy policy;
  EXPECT_EQ(policy.after(milliseconds(10)), milliseconds(0));
  std::vector<int64_t> pauses;
  for (int i = 0; i < 9; ++i) pauses.push_back(policy.after(milliseconds(10)).count());
  EXPECT_EQ(pauses, (std::vector<int64_t>{500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000}));
}

TEST(RestartPolicy, AGoodLifeWinsTheTrustBack) {
  RestartPolicy policy;
  for (int i = 0; i < 5; ++i) policy.after(milliseconds(10));
  EXPECT_EQ(policy.after(std::chrono::minutes(2)), milliseconds(0));
  EXPECT_EQ(policy.after(milliseconds(10)), milliseconds(500));
}

class Supervised : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "supervisor-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The supervisor with `script` as its child, in a process of its own (it takes the signals of its process).
  pid_t start(const std::string& script) {
    const std::string folder = folder_.string();
    const pid_t process = fork();
    if (process != 0) return process;
    if (freopen((folder + "/stderr").c_str(), "a", stderr) == nullptr) _exit(99);
    SupervisorOptions options;
    options.command = {"/bin/sh", "-c", "cd " + folder + "; " + script};
    options.limits = {milliseconds(1), milliseconds(4), milliseconds(60000)};
    options.report_first = report_first_;
    options.report_lost = [&](const std::string& incarnation, const std::string& reason,
                              const std::vector<std::string>& last_lines) {
      take_time_();
      std::ofstream words(folder + "/words-" + incarnation);
      for (const std::string& line : last_lines) words << line << "\n";
      words.close();
      std::ofstream(folder + "/lost-" + incarnation + ".part") << reason;
      std::filesystem::rename(folder + "/lost-" + incarnation + ".part", folder + "/lost-" + incarnation);
    };
    _exit(supervise(options));
  }

  int end_of(pid_t process) {
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string content(const std::string& name) const {
    std::ifstream file(folder_ / name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // Reports come from processes of their own: they may be a moment behind.
  std::vector<std::string> reports(size_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::vector<std::string> found;
    do {
      found.clear();
      for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("lost-") && !name.ends_with(".part")) found.push_back(content(name));
      }
      std::this_thread::sleep_for(milliseconds(2));
    } while (std::chrono::steady_clock::now() < deadline && found.size() < count);
    return found;
  }

  void wait_for(const std::string& name) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!std::filesystem::exists(folder_ / name)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << name << " did not appear";
      std::this_thread::sleep_for(milliseconds(2));
    }
  }

  std::filesystem::path folder_;
  milliseconds report_first_{60000};
  std::function<void()> take_time_ = [] {};  // in the reporting process, before it reports
};

TEST_F(Supervised, EndsWithTheChildsSuccess) {
  EXPECT_EQ(end_of(start("exit 0")), 0);
}

TEST_F(Supervised, DoesNotRepeatWhatConfigurationBroke) {
  EXPECT_EQ(end_of(start("echo life >> lives; exit 2")), 2);
  EXPECT_EQ(content("lives"), "life\n");
}

TEST_F(Supervised, StopsWhenTheNameIsTaken) {
  EXPECT_EQ(end_of(start("echo life >> lives; exit 76")), 1);
  EXPECT_EQ(content("lives"), "life\n");
}

TEST_F(Supervised, RestartsAChildThatCrashedUnderAnIncarnationOfItsOwn) {
  // Two lives crash in different ways, the third is well.
  EXPECT_EQ(end_of(start("echo $HOLDFAST_INTERNAL_INCARNATION >> lives; case $(wc -l < lives) in "
                         "1) kill -9 $$;; 2) exit 5;; *) exit 0;; esac")),
            0);
  std::istringstream lives(content("lives"));
  std::vector<std::string> incarnations;
  for (std::string line; lives >> line;) incarnations.push_back(line);
  ASSERT_EQ(incarnations.size(), 3U);
  EXPECT_EQ(incarnations[0].size(), 32U);
  EXPECT_NE(incarnations[0], incarnations[1]);
  EXPECT_NE(incarnations[1], incarnations[2]);
}

TEST_F(Supervised, ReportsWhyALifeEnded) {
  const pid_t supervisor = start("if test -e once; then exec sleep 1000; fi; touch once; kill -9 $$");
  EXPECT_EQ(reports(1), std::vector<std::string>{"killed by signal 9 (SIGKILL)"});
  kill(supervisor, SIGKILL);
  end_of(supervisor);
}

TEST(DescribeEnd, SaysWhatABusErrorMeans) {
  EXPECT_EQ(describe_end(SIGBUS),
            "killed by signal 7 (SIGBUS): a file that it reads, such as the training data, became shorter, or its disk failed");
}

TEST_F(Supervised, TheNextLifeDoesNotOvertakeTheReport) {
  take_time_ = [] { std::this_thread::sleep_for(milliseconds(100)); };  // a slow machine
  EXPECT_EQ(end_of(start("if test -e once; then cat lost-* > known; exit 0; fi; touch once; kill -9 $$")), 0);
  EXPECT_EQ(content("known"), "killed by signal 9 (SIGKILL)");
}

TEST_F(Supervised, AServiceThatDoesNotAnswerDoesNotHoldUpTheNextLife) {
  report_first_ = milliseconds(10);
  take_time_ = [this] { wait_for("second"); };
  EXPECT_EQ(end_of(start("if test -e once; then touch second; exit 0; fi; touch once; kill -9 $$")), 0);
}

TEST_F(Supervised, ATerminationBetweenTwoLivesWaitsForTheReport) {
  take_time_ = [] { kill(getppid(), SIGTERM); };
  EXPECT_EQ(end_of(start("kill -9 $$")), 0);
  EXPECT_EQ(reports(1), std::vector<std::string>{"killed by signal 9 (SIGKILL)"});
}

TEST_F(Supervised, ReportsTheReasonThatALifeGave) {
  const pid_t supervisor = start(
      "if test -e once; then exec sleep 1000; fi; touch once; "
      "printf 'gpu hip:0\\nreason hip: out of memory\\n' > /proc/self/fd/$HOLDFAST_INTERNAL_LIFE_REPORT; exit 1");
  EXPECT_EQ(reports(1), std::vector<std::string>{"exited with status 1: hip: out of memory"});
  kill(supervisor, SIGKILL);
  end_of(supervisor);
}

TEST_F(Supervised, ReportsTheLastLinesThatALifeWrote) {
  const pid_t supervisor = start(
      "if test -e once; then exec sleep 1000; fi; touch once; for i in $(seq 1000); do echo line $i >&2; done; "
      "printf '\\033[31mred\\033[0m and dead' >&2; kill -9 $$");
  ASSERT_EQ(reports(1).size(), 1U);
  std::string words;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (const std::string name = entry.path().filename().string(); name.starts_with("words-")) words = content(name);
  }
  EXPECT_TRUE(words.starts_with("line 952\nline 953\n")) << words;
  EXPECT_TRUE(words.ends_with("line 1000\nred and dead\n")) << words;
  kill(supervisor, SIGKILL);
  end_of(supervisor);
}

TEST_F(Supervised, WhatALifeWritesGoesOnToItsOwnStderr) {
  const std::string errors = (folder_ / "stderr").string();
  const pid_t process = fork();
  if (process == 0) {
    if (freopen(errors.c_str(), "a", stderr) == nullptr) _exit(99);
    SupervisorOptions options;
    options.command = {"/bin/sh", "-c", "echo one >&2; sleep 0.05; echo two >&2; exit 0"};
    options.report_lost = [](const std::string&, const std::string&, const std::vector<std::string>&) {};
    _exit(supervise(options));
  }
  EXPECT_EQ(end_of(process), 0);
  EXPECT_EQ(content("stderr"), "one\ntwo\n");
}

TEST_F(Supervised, ALifeDoesNotWaitForASupervisorThatIsStopped) {
  const pid_t supervisor = start(
      "touch ready; while ! test -e go; do sleep 0.01; done; "
      "head -c 3000000 /dev/zero | tr '\\0' 'x' >&2; touch through; exit 0");
  wait_for("ready");
  kill(supervisor, SIGSTOP);
  std::ofstream(folder_ / "go") << "";
  wait_for("through");
  kill(supervisor, SIGCONT);
  EXPECT_EQ(end_of(supervisor), 0);
}

TEST_F(Supervised, TellsLaterLivesWhichGpuAnEarlierOneHad) {
  EXPECT_EQ(
      end_of(start(
          "echo ${HOLDFAST_INTERNAL_GPU-none} >> gpus; case $(wc -l < gpus) in "
          "1) printf 'gpu hip:1\\n' > /proc/self/fd/$HOLDFAST_INTERNAL_LIFE_REPORT; exit 1;; 2) exit 1;; *) exit 0;; esac")),
      0);
  EXPECT_EQ(content("gpus"), "none\nhip:1\nhip:1\n");
}

TEST_F(Supervised, TellsLaterLivesTheHighestTermThatAnEarlierOneHadHeardOf) {
  EXPECT_EQ(end_of(start("echo ${HOLDFAST_INTERNAL_TERM-none} >> terms; case $(wc -l < terms) in "
                         "1) printf 'term 6\nterm 7\n' > /proc/self/fd/$HOLDFAST_INTERNAL_LIFE_REPORT; kill -9 $$;; "
                         "2) exit 1;; *) exit 0;; esac")),
            0);
  EXPECT_EQ(content("terms"), "none\n7\n7\n");
}

TEST_F(Supervised, AFencedChildIsFollowedByANewOneWithoutAReport) {
  // The second life is long enough for a report of the first one to be written.
  EXPECT_EQ(end_of(start("echo life >> lives; test $(wc -l < lives) = 2 || exit 75; sleep 0.3")), 0);
  EXPECT_EQ(content("lives"), "life\nlife\n");
  EXPECT_TRUE(reports(0).empty());
}

TEST_F(Supervised, PassesATerminationOnAndWaitsForTheChildsGoodEnd) {
  const pid_t supervisor = start("trap 'touch told; exit 0' TERM; touch ready; while :; do sleep 0.01; done");
  wait_for("ready");
  kill(supervisor, SIGINT);
  EXPECT_EQ(end_of(supervisor), 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "told"));
}

TEST_F(Supervised, ATerminationThatTheChildDoesNotYetListenToIsAGoodEnd) {
  const pid_t supervisor = start("touch ready; while :; do sleep 0.01; done");
  wait_for("ready");
  kill(supervisor, SIGTERM);
  EXPECT_EQ(end_of(supervisor), 0);
}

TEST_F(Supervised, ASecondTerminationKillsAndIsReported) {
  const pid_t supervisor = start("trap 'touch told' TERM; touch ready; while :; do sleep 0.01; done");
  wait_for("ready");
  kill(supervisor, SIGTERM);
  wait_for("told");
  kill(supervisor, SIGTERM);
  EXPECT_EQ(end_of(supervisor), 1);
  EXPECT_EQ(reports(1).size(), 1U);
}

TEST_F(Supervised, TheChildDiesWithIt) {
  const pid_t supervisor = start("echo $$ > pid.part; mv pid.part pid; while :; do sleep 0.01; done");
  wait_for("pid");
  const pid_t child = std::stoi(content("pid"));
  kill(supervisor, SIGKILL);
  end_of(supervisor);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  // It is a zombie or gone once it was killed; nobody of ours waits for it.
  const auto alive = [&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string word;
    for (int i = 0; i < 3; ++i) stat >> word;
    return stat && word != "Z" && word != "X";
  };
  while (alive()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the child " << child << " lives on";
    std::this_thread::sleep_for(milliseconds(2));
  }
}

TEST_F(Supervised, AProgramThatIsNotThereIsAnErrorAndNotALoop) {
  const pid_t process = fork();
  if (process == 0) {
    SupervisorOptions options;
    options.command = {"/nonexistent/program"};
    options.report_lost = [](const std::string&, const std::string&, const std::vector<std::string>&) {};
    _exit(supervise(options));
  }
  EXPECT_EQ(end_of(process), 1);
}

TEST(Incarnation, IsNeverTheSame) {
  EXPECT_NE(new_incarnation(), new_incarnation());
}

}  // namespace
}  // namespace holdfast::worker
