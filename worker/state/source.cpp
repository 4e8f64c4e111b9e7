#include "worker/state/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "model/state/host_state.h"
#include "rendezvous/client/retry.h"

namespace holdfast::worker {
namespace {

using rendezvous::StateSource;
using std::chrono::milliseconds;

constexpr milliseconds kSignOfLife{100};
constexpr std::chrono::seconds kOthersWords{30};  // so long ranks that still read may find what the first that failed has found
enum class Reading : uint8_t { kReading, kDone, kFailed };

// One try to read. Returns "" on success, else the reason why a second try would not help; nullopt: the store is away, and
// `away` says how. A place of this job's own that is not there, or is empty, is away: its volume is not mounted on this
// machine, perhaps, and a checkpoint that one machine does not see is not to be given up for all. Nobody waits for a first
// place that is lost where there is a second (`copy`).
std::optional<std::string> try_to_read(const StateSource& source, bool is_own, const StoreOpener& open_store,
                                       const ReadOnce& read, storage::Manifest& manifest, storage::Error& away) {
  using enum storage::Error::Code;
  const auto verdict = [&](const storage::Error& error, bool is_missing = false) -> std::optional<std::string> {
    if (error.code != kUnavailable && !is_missing) return error.message;
    away = error;
    return std::nullopt;
  };
  const bool is_waited_for = is_own && !source.store.empty() && source.copy.empty();
  auto store = open_store(source.store, source.job, source.copy);
  if (!store) return verdict(store.error(), is_waited_for && store.error().code == kNotFound);
  auto found = read(**store);
  if (!found && found.error().code == kNotFound && is_waited_for) {
    const auto steps = storage::list_checkpoints(**store);
    if (!steps) return verdict(steps.error(), true);
    if (steps->empty()) {
      const auto text =
          fmt::format("no checkpoint at all is in {}: is its volume mounted on this machine?", (*store)->describe());
      return verdict({kNotFound, text}, true);
    }
    if (std::ranges::find(*steps, source.step) != steps->end()) found = read(**store);  // it may have come just now
  }
  if (!found) return verdict(found.error());
  if (!source.state_hash.empty() && found->state_hash != source.state_hash) {
    return fmt::format("{}: the checkpoint of step {} has the hash {}, the catalogue says {}", (*store)->describe(),
                       source.step, found->state_hash, source.state_hash);
  }
  manifest = std::move(*found);
  return "";
}

class CheckpointReader {
 public:
  CheckpointReader(const StateSource& source, const StoreOpener& open_store, Interrupt& interrupt, const ReadOnce& read,
                   const WhenAway& when_away)
      : thread_([&, this](const std::stop_token& stop) {
          rendezvous::BackOff back_off(milliseconds(500), milliseconds(5000));
          std::optional<std::string> result;
          storage::Error away;
          std::optional<storage::Error::Code> told;
          while (!result && !stop.stop_requested() && !interrupt.raised()) {
            result = try_to_read(source, source.job == when_away.job, open_store, read, manifest_, away);
            if (result) break;
            is_away_ = true;
            if (std::exchange(told, away.code) != away.code) {
              when_away.tell(fmt::format("the checkpoint of step {} cannot be read now, and is tried again: {}", source.step,
                                         away.message));
            }
            interrupt.wait_for(back_off.next());
          }
          failure_ = result.value_or("");
          state_ = !result ? Reading::kReading : result->empty() ? Reading::kDone : Reading::kFailed;
        }) {}

  Reading state() const { return state_; }
  bool is_away() const { return is_away_ && state_ == Reading::kReading; }  // or was, at the last try
  const std::string& failure() const { return failure_; }                   // once the state is kFailed
  storage::Manifest take_manifest() { return std::move(manifest_); }        // once it is kDone

 private:
  std::atomic<Reading> state_{Reading::kReading};
  std::atomic<bool> is_away_ = false;
  std::string failure_;
  storage::Manifest manifest_;
  std::jthread thread_;  // last: it uses the rest
};

// Exchanges how far each rank's reading is; returns their words.
RunResult<std::vector<Reading>> tell(Communicator& ring, Reading mine) {
  const std::byte word{static_cast<uint8_t>(mine)};
  auto gathered = ring.all_gather({&word, 1});
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<Reading> words;
  for (const auto& told : *gathered) {
    if (told.size() != 1 || std::to_integer<uint8_t>(told[0]) > static_cast<uint8_t>(Reading::kFailed)) {
      const auto rank = static_cast<int>(words.size());
      const auto text = fmt::format("rank {} sent bytes that do not say how far its reading of the checkpoint is", rank);
      return tl::unexpected(fault("connection_lost", text, rank));
    }
    words.push_back(static_cast<Reading>(std::to_integer<uint8_t>(told[0])));
  }
  return words;
}

RunResult<void> read_whole_as_rank0(const StateSource& source, Communicator& ring, Session& session,
                                    const StoreOpener& open_store, Interrupt& interrupt, const WhenAway& when_away) {
  if (ring.rank() != 0) {
    const auto read = read_beside_the_ring(source, ring, open_store, interrupt, nullptr, when_away);
    return read ? RunResult<void>() : tl::unexpected(read.error());
  }
  model::HostState state(*session.state, *session.ops);
  std::vector<storage::MutableTensor> tensors;
  for (const model::StateTensor& tensor : state.tensors())
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.data, tensor.bytes}});
  const int threads = host_threads(*session.ops, 8);
  const auto read_all = [&](storage::ObjectStore& store) {
    return storage::read_checkpoint(store, source.step, tensors, threads);
  };
  const auto read = read_beside_the_ring(source, ring, open_store, interrupt, read_all, when_away);
  if (!read) return tl::unexpected(read.error());
  state.put();
  session.state->bytes_changed();
  session.state->step = source.step;
  session.has_state = true;
  return {};
}

}  // namespace

RunResult<storage::Manifest> read_beside_the_ring(const StateSource& source, Communicator& ring, const StoreOpener& open_store,
                                                  Interrupt& interrupt, const ReadOnce& read, const WhenAway& when_away) {
  std::optional<CheckpointReader> reader;
  if (read) reader.emplace(source, open_store, interrupt, read, when_away);
  std::optional<RunStop> failure;  // of this rank, else of another
  std::optional<std::chrono::steady_clock::time_point> until;
  while (true) {
    const Reading mine = reader ? reader->state() : Reading::kDone;
    if (mine == Reading::kFailed) {
      failure = fault("checkpoint_unreadable", reader->failure());
      failure->checkpoint_step = source.step;
    }
    const auto words = tell(ring, mine);
    if (!words) return tl::unexpected(mine == Reading::kFailed ? *std::move(failure) : words.error());
    const auto failed = std::ranges::find(*words, Reading::kFailed);
    if (failed != words->end() && !failure)
      failure = interrupted(fmt::format("rank {} could not read the checkpoint", failed - words->begin()));
    if (failure && !until) until = std::chrono::steady_clock::now() + kOthersWords;
    const bool all_told = std::ranges::find(*words, Reading::kReading) == words->end();
    if (failure && (all_told || std::chrono::steady_clock::now() >= *until)) return tl::unexpected(*std::move(failure));
    if (all_told) break;
    if (reader && reader->is_away() && when_away.leaves())
      return tl::unexpected(interrupted("this worker leaves, and does not see the checkpoint"));
    if (interrupt.wait_for(kSignOfLife)) return tl::unexpected(failure ? *std::move(failure) : interrupted(interrupt.reason()));
  }
  return reader ? reader->take_manifest() : storage::Manifest();
}

RunResult<int64_t> acquire_state(const StateSource& source, Communicator& ring, Session& session, const StoreOpener& open_store,
                                 Interrupt& interrupt, const WhenAway& when_away) {
  if (source.kind == StateSource::Kind::kMemory) return source.step;
  session.lose_gradient();
  session.refused_in_row = 0;
  session.refused_last = false;
  if (source.kind == StateSource::Kind::kInitial) {
    if (const auto reset = reset_to_initial(session); !reset) return tl::unexpected(reset.error());
    return 0;
  }
  session.distrust();
  if (session.is_divided()) return source.step;
  if (const auto done = read_whole_as_rank0(source, ring, session, open_store, interrupt, when_away); !done)
    return tl::unexpected(done.error());
  return source.step;
}

}  // namespace holdfast::worker
