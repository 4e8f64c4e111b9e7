#include "worker/checkpoints/gathering_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "storage/failure.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{10}, kLongestPause{500};
constexpr std::chrono::seconds kLong{30};  // beyond what writing usually takes

// "the part of rank 2", "the parts of ranks 1, 3".
std::string missing_parts(const storage::Parts& parts, int64_t writers) {
  std::vector<int64_t> missing;
  for (int64_t writer = 0; writer < writers; ++writer) {
    if (!parts.contains(writer)) missing.push_back(writer);
  }
  if (missing.size() == 1) return fmt::format("the part of rank {}", missing.front());
  return fmt::format("the parts of ranks {}", fmt::join(missing, ", "));
}

// "the part of rank 2 is".
std::string missing_parts_are(const storage::Parts& parts, int64_t writers) {
  return missing_parts(parts, writers) + (writers == static_cast<int64_t>(parts.size()) + 1 ? " is" : " are");
}

}  // namespace

storage::Result<storage::Manifest> PartsGathering::run(const storage::Manifest& manifest, const storage::Part& own) const {
  const int64_t writers = own.of.writers;
  storage::Parts parts{{own.of.writer, own}};
  std::optional<std::string> given_up;
  std::string told;
  const auto tell = [&](const std::string& text) {
    if (std::exchange(told, text) != text) on_delay(text);
  };
  const auto begun = steady_clock::now();
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto found = storage::find_parts(store, manifest, writers, parts);
    const bool all = found && parts.size() == static_cast<size_t>(writers);
    if (all) {
      auto done = storage::put_manifest_of(store, manifest, parts);
      const bool may_work_later = !done && (done.error().code == storage::Error::Code::kUnavailable ||
                                            done.error().code == storage::Error::Code::kNoSpace);
      if (!may_work_later) return done;
      found = tl::unexpected(done.error());
      parts = {{own.of.writer, own}};
    }
    if (given_up) {
      const std::string why = found ? missing_parts_are(parts, writers) + " not in " + store.describe() : found.error().message;
      return storage::fail(storage::Error::Code::kUnavailable, "{}, and {}", why, *given_up);
    }
    if (found) on_missing(missing_parts(parts, writers));
    if (!found) {
      tell(found.error().message);
    } else if (steady_clock::now() - begun > kLong) {
      tell(fmt::format("{} not in {} yet: every worker must see the same folder there", missing_parts_are(parts, writers),
                       store.describe()));
    }
    given_up = wait(pause);
  }
}

}  // namespace holdfast::worker
