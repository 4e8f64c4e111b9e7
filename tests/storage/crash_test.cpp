// A process that writes checkpoints is killed with SIGKILL at random moments: every checkpoint that is listed afterwards is
// whole, and the next process goes on from there.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <thread>

#include "tests/storage/checks.h"
#include "tests/storage/temporary_folder.h"

extern char** environ;

namespace holdfast::storage::testing {
namespace {

uint32_t chosen_seed() {
  const char* given = std::getenv("HOLDFAST_TEST_SEED");  // NOLINT(concurrency-mt-unsafe): before any thread
  return given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

// Runs the looper for `lifetime` and kills it; fails when it ended by itself.
void run_and_kill(const std::string& folder, std::chrono::microseconds lifetime) {
  const char* program = HOLDFAST_CHECKPOINT_LOOPER;
  char* const arguments[] = {const_cast<char*>(program), const_cast<char*>(folder.c_str()), nullptr};
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, program, nullptr, nullptr, arguments, environ), 0) << program;
  std::this_thread::sleep_for(lifetime);  // the moment of the kill is what is random here
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, with status " << WEXITSTATUS(status) << "; its message is above";
}

TEST(Crash, EveryListedCheckpointIsWholeAfterKillsAtRandomMoments) {
  const uint32_t seed = chosen_seed();
  SCOPED_TRACE("again with HOLDFAST_TEST_SEED=" + std::to_string(seed));
  std::mt19937 random(seed);
  TemporaryFolder folder;
  const auto store = std::move(*open_directory_store(folder.path()));
  int64_t newest = 0;
  for (int round = 0; round < 60; ++round) {
    ASSERT_NO_FATAL_FAILURE(run_and_kill(folder.path(), std::chrono::microseconds(3000 + random() % 60000)));
    const auto steps = list_checkpoints(*store);
    ASSERT_TRUE(ok(steps));
    for (const int64_t step : *steps) ASSERT_TRUE(holds(*store, step, State(static_cast<uint32_t>(step)))) << "round " << round;
    const int64_t now = steps->empty() ? 0 : steps->back();
    ASSERT_GE(now, newest) << "a checkpoint that was there is gone, round " << round;
    newest = now;
  }
  EXPECT_GT(newest, 0) << "no process lived long enough to write anything";
  ASSERT_TRUE(ok(remove_orphans(*store, {})));
  size_t named = 0;
  const auto steps = list_checkpoints(*store);
  ASSERT_TRUE(ok(steps));
  for (const int64_t step : *steps) named += 1 + read_manifest(*store, step)->shards.size();
  EXPECT_EQ(store->list("")->size(), named) << "what crashed processes left is gone";
}

}  // namespace
}  // namespace holdfast::storage::testing
