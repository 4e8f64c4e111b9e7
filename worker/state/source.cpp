#include "worker/state/source.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "model/host_state.h"
#include "rendezvous/client/retry.h"

namespace holdfast::worker {
namespace {

using rendezvous::StateSource;
using std::chrono::milliseconds;

constexpr milliseconds kSignOfLife{100};
enum class Reading : uint8_t { kReading, kDone, kFailed };

// One try to read. Returns "" on success, else the reason why a second try would not help; nullopt: the store is away.
std::optional<std::string> read_once(const StateSource& source, const model::HostState& state, int threads,
                                     const StoreOpener& open_store) {
  const auto verdict = [](const storage::Error& error) -> std::optional<std::string> {
    if (error.code != storage::Error::Code::kUnavailable) return error.message;
    spdlog::warn("the checkpoint cannot be read now, it is tried again: {}", error.message);
    return std::nullopt;
  };
  auto store = open_store(source.store, source.job);
  if (!store) return verdict(store.error());
  std::vector<storage::MutableTensor> tensors;
  for (const model::StateTensor& tensor : state.tensors()) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {tensor.data, tensor.bytes}});
  }
  const auto manifest = storage::read_checkpoint(**store, source.step, tensors, threads);
  if (!manifest) return verdict(manifest.error());
  if (!source.state_hash.empty() && manifest->state_hash != source.state_hash) {
    return fmt::format("{}: the checkpoint of step {} has the hash {}, the catalogue says {}", (*store)->describe(),
                       source.step, manifest->state_hash, source.state_hash);
  }
  return "";
}

class CheckpointReader {
 public:
  CheckpointReader(const StateSource& source, const model::HostState& state, int threads, const StoreOpener& open_store,
                   Interrupt& interrupt)
      : thread_([&, this, threads](const std::stop_token& stop) {
          rendezvous::BackOff back_off(milliseconds(500), milliseconds(5000));
          std::optional<std::string> result;
          while (!result && !stop.stop_requested() && !interrupt.raised()) {
            result = read_once(source, state, threads, open_store);
            if (!result) interrupt.wait_for(back_off.next());
          }
          failure_ = result.value_or("");
          state_ = !result ? Reading::kReading : result->empty() ? Reading::kDone : Reading::kFailed;
        }) {}

  Reading state() const { return state_; }
  const std::string& failure() const { return failure_; }  // once the state is kFailed

 private:
  std::atomic<Reading> state_{Reading::kReading};
  std::string failure_;
  std::jthread thread_;  // last: it uses the rest
};

// Exchanges how far the reading is; returns rank 0's word.
RunResult<Reading> tell(Communicator& ring, Reading mine) {
  const std::byte word{static_cast<uint8_t>(mine)};
  auto gathered = ring.all_gather({&word, 1});
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  const auto& first = gathered->front();
  if (first.size() != 1 || std::to_integer<uint8_t>(first[0]) > static_cast<uint8_t>(Reading::kFailed)) {
    return tl::unexpected(
        fault("connection_lost", "rank 0 sent bytes that do not say how far its reading of the checkpoint is", 0));
  }
  return static_cast<Reading>(std::to_integer<uint8_t>(first[0]));
}

RunResult<void> read_as_rank0(const StateSource& source, Communicator& ring, Session& session, const StoreOpener& open_store,
                              Interrupt& interrupt) {
  model::HostState state(*session.state, *session.ops);
  const CheckpointReader reader(source, state, host_threads(*session.ops, 8), open_store, interrupt);
  while (true) {
    const Reading now = reader.state();
    if (auto told = tell(ring, now); !told) return tl::unexpected(told.error());
    if (now == Reading::kDone) break;
    if (now == Reading::kFailed) {
      RunStop stop = fault("checkpoint_unreadable", reader.failure());
      stop.checkpoint_step = source.step;
      return tl::unexpected(std::move(stop));
    }
    if (interrupt.wait_for(kSignOfLife)) return tl::unexpected(interrupted(interrupt.reason()));
  }
  state.put();
  session.state->bytes_changed();
  session.state->step = source.step;
  session.has_state = true;
  return {};
}

RunResult<void> wait_for_rank0(Communicator& ring) {
  while (true) {
    const auto told = tell(ring, Reading::kReading);
    if (!told) return tl::unexpected(told.error());
    if (*told == Reading::kDone) return {};
    if (*told == Reading::kFailed) return tl::unexpected(interrupted("rank 0 could not read the checkpoint"));
  }
}

}  // namespace

RunResult<int64_t> acquire_state(const StateSource& source, Communicator& ring, Session& session, const StoreOpener& open_store,
                                 Interrupt& interrupt) {
  if (source.kind == StateSource::Kind::kMemory) return source.step;
  session.applied_step = -1;
  session.refused_in_row = 0;
  session.refused_last = false;
  if (source.kind == StateSource::Kind::kInitial) {
    reset_to_initial(session);
    return 0;
  }
  session.has_state = false;
  const auto done = ring.rank() == 0 ? read_as_rank0(source, ring, session, open_store, interrupt) : wait_for_rank0(ring);
  if (!done) return tl::unexpected(done.error());
  return source.step;
}

}  // namespace holdfast::worker
