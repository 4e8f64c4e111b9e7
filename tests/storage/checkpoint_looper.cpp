// The program that crash_test.cpp kills: it writes one checkpoint after the other into a folder until then.
//
//   storage_checkpoint_looper FOLDER
// It goes on after the newest checkpoint in the folder; the state at step s is State(s). It keeps three checkpoints, and
// sometimes writes a step again. It writes a byte to its standard output when it begins and after each checkpoint.
#include <unistd.h>

#include <cstdio>

#include "tests/storage/checks.h"

using namespace holdfast::storage;
using holdfast::storage::testing::manifest_at;
using holdfast::storage::testing::State;

namespace {

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto store = open_directory_store(argv[1]);
  if (!store) return fail(store.error());
  auto steps = list_checkpoints(**store);
  if (!steps) return fail(steps.error());
  int64_t step = steps->empty() ? 0 : steps->back();
  while (true) {
    if (::write(STDOUT_FILENO, ".", 1) != 1) return 0;  // the test has ended
    ++step;
    for (int times = step % 4 == 0 ? 2 : 1; times > 0; --times) {
      const auto written = write_checkpoint(**store, manifest_at(step), State(static_cast<uint32_t>(step)).tensors(),
                                            {.shard_bytes = 3000, .threads = 2});
      if (!written) return fail(written.error());
    }
    steps = list_checkpoints(**store);
    if (!steps) return fail(steps.error());
    for (const int64_t victim : retention_victims(*steps, 3, steps->back())) {
      if (auto removed = remove_checkpoint(**store, victim); !removed) return fail(removed.error());
    }
  }
}
