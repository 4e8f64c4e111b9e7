// The team does every task once, with any number of threads, also when jobs follow each other quickly; sums of what its threads
// make are in the order of the tasks.
#include "kernels/cpu/team.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <numeric>
#include <thread>

#include "kernels/cpu/ordered_sum.h"

namespace holdfast::kernels::cpu {
namespace {

TEST(Team, DoesEveryTaskOnceAndSeesWhatTasksWrote) {
  for (int threads : {1, 2, 3, 8}) {
    Team team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (int64_t tasks : {0, 1, 2, 3, 100, 5000}) {
      std::vector<int> done(static_cast<size_t>(tasks), 0);
      team.for_each(tasks, [&](int64_t task, int) { ++done[static_cast<size_t>(task)]; });
      EXPECT_EQ(done, std::vector<int>(static_cast<size_t>(tasks), 1)) << threads << " threads, " << tasks << " tasks";
    }
  }
}

// The jobs are so short that helpers are late for most of them. No helper may take a task of a finished job, or a task twice.
TEST(Team, SurvivesManyShortJobsOfChangingSize) {
  Team team(4);
  std::vector<int> done(7);
  for (int job = 0; job < 20000; ++job) {
    const int64_t tasks = 2 + job % 6;
    std::fill(done.begin(), done.end(), 0);
    team.for_each(tasks, [&, job](int64_t task, int) { done[static_cast<size_t>(task)] += job; });
    for (int64_t task = 0; task < 7; ++task) ASSERT_EQ(done[static_cast<size_t>(task)], task < tasks ? job : 0) << job;
  }
}

TEST(Team, WakesAllItsThreadsAlsoWhenTheyHaveSlept) {
  Team team(4);
  for (int job = 0; job < 20; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(job % 4));  // they look for less than one before they sleep
    std::atomic<int> there = 0;
    team.for_each(4, [&](int64_t, int) {
      ++there;
      while (there < 4) std::this_thread::yield();
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(3));  // the team ends while they sleep
}

TEST(Team, NumbersItsThreadsAndGivesEachOneTaskAtATime) {
  Team team(3);
  std::vector<std::atomic<int>> busy(3);
  team.for_each(2000, [&](int64_t, int thread) {
    ASSERT_GE(thread, 0);
    ASSERT_LT(thread, 3);
    EXPECT_EQ(busy[static_cast<size_t>(thread)].fetch_add(1), 0);
    busy[static_cast<size_t>(thread)].fetch_sub(1);
  });
}

// There is memory for only a few more stacks. The threads that were started end, and the message says how many there were.
TEST(Team, SaysHowManyThreadsCouldBeStarted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers do not run with little memory";
#endif
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit little{pages * static_cast<rlim_t>(::getpagesize()) + (100U << 20), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  std::string message = "they were all started";
  try {
    const Team team(1000);
  } catch (const std::runtime_error& e) {
    message = e.what();
  }
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_NE(message.find("was given 1000 threads, and only "), std::string::npos) << message;
  EXPECT_NE(message.find("--threads"), std::string::npos) << message;
  Team team(3);
  std::atomic<int> done = 0;
  team.for_each(100, [&](int64_t, int) { ++done; });
  EXPECT_EQ(done, 100);
}

// A helper may be anywhere on its way to sleep when its team ends.
TEST(Team, ManyComeAndGo) {
  for (int i = 0; i < 1000; ++i) {
    const auto team = std::make_unique<Team>(1 + i % 4);
    if (i % 3 == 0) team->for_each(5, [](int64_t, int) {});
  }
}

TEST(OrderedSum, AddsInTheOrderOfNumbersWhoeverIsFirst) {
  for (const int threads : {1, 2, 5}) {
    Team team(threads);
    constexpr int64_t kNumbers = 200;
    std::vector<float> memory(static_cast<size_t>(threads) * 2);
    OrderedSum sum(memory.data(), threads, 2);  // as many parts as threads: a late one must still get its own
    std::vector<float> order;
    std::atomic<int64_t> ended = -1;  // the largest number of those that have
    team.for_each(kNumbers, [&](int64_t number, int) {
      if (number % 7 == 0 && threads > 1) {  // a later one comes first
        for (int64_t newest = ended; newest <= number; newest = ended) ended.wait(newest);
      }
      float* const part = sum.begin(number);
      part[0] = static_cast<float>(number);
      part[1] = -part[0];
      sum.end(number, part, [&](const float* its, bool is_first) {
        EXPECT_EQ(is_first, order.empty());
        EXPECT_EQ(its[0], -its[1]);
        order.push_back(its[0]);
      });
      for (int64_t newest = ended; newest < number && !ended.compare_exchange_weak(newest, number);) continue;
      ended.notify_all();
    });
    ASSERT_EQ(order.size(), kNumbers);
    for (int64_t number = 0; number < kNumbers; ++number) EXPECT_EQ(order[static_cast<size_t>(number)], number);
  }
}

}  // namespace
}  // namespace holdfast::kernels::cpu
