// A process that writes checkpoints is killed with SIGKILL at random moments. Afterwards every listed checkpoint is whole, and
// the next process goes on from the newest.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/storage/checks.h"
#include "tests/storage/seed.h"
#include "tests/storage/temporary_folder.h"

extern char** environ;

namespace holdfast::storage::testing {
namespace {

// Runs the looper until it has written `checkpoints` checkpoints, and kills it at a random moment of the next one. Fails if
// the looper ended by itself.
void run_and_kill(const std::string& folder, uint32_t checkpoints, std::mt19937& random) {
  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  const char* program = HOLDFAST_CHECKPOINT_LOOPER;
  char* const arguments[] = {const_cast<char*>(program), const_cast<char*>(folder.c_str()), nullptr};
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, program, &actions, nullptr, arguments, environ), 0) << program;
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);

  // The looper writes a byte when it begins and after each checkpoint.
  char mark = 0;
  auto before = std::chrono::steady_clock::now();
  std::chrono::microseconds last{5000};  // the duration of the last checkpoint; a guess at first
  for (uint32_t i = 0; i <= checkpoints && ::read(pipe_ends[0], &mark, 1) == 1; ++i) {
    const auto now = std::chrono::steady_clock::now();
    if (i > 0) last = std::chrono::duration_cast<std::chrono::microseconds>(now - before);
    before = now;
  }
  std::this_thread::sleep_for(last * (random() % 1000) / 1000);  // the moment of the kill is random
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::close(pipe_ends[0]);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, with status " << WEXITSTATUS(status) << "; its message is above";
}

TEST(Crash, EveryListedCheckpointIsWholeAfterKillsAtRandomMoments) {
  const uint32_t seed = chosen_seed();
  SCOPED_TRACE(how_to_repeat(seed));
  std::mt19937 random(seed);
  TemporaryFolder folder;
  const auto store = std::move(*open_directory_store(folder.path()));
  int64_t newest = 0;
  for (int round = 0; round < 60; ++round) {
    ASSERT_NO_FATAL_FAILURE(run_and_kill(folder.path(), random() % 4, random));
    const auto steps = list_checkpoints(*store);
    ASSERT_TRUE(ok(steps));
    for (const int64_t step : *steps) ASSERT_TRUE(holds(*store, step, State(static_cast<uint32_t>(step)))) << "round " << round;
    const int64_t now = steps->empty() ? 0 : steps->back();
    ASSERT_GE(now, newest) << "a checkpoint that was there is gone, round " << round;
    newest = now;
  }
  ASSERT_TRUE(ok(remove_orphans(*store, {})));
  size_t named = 0;
  const auto steps = list_checkpoints(*store);
  ASSERT_TRUE(ok(steps));
  for (const int64_t step : *steps) named += 1 + read_manifest(*store, step)->shards.size();
  EXPECT_EQ(store->list("")->size(), named) << "what crashed processes left is gone";
}

}  // namespace
}  // namespace holdfast::storage::testing
