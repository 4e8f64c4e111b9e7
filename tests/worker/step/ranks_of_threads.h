// A job's ranks as threads over loopback, with a tiny model on the reference ops, and a service that says yes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/client/service_store.h"
#include "storage/open_store.h"
#include "tests/worker/link/fake_service.h"
#include "worker/checkpoints/checkpointing.h"
#include "worker/state/divided/agreement.h"
#include "worker/state/divided/holdings.h"
#include "worker/state/source.h"
#include "worker/step/train_loop.h"

namespace holdfast::worker {

// A folder with files of random tokens; gone with the object.
class TestData {
 public:
  TestData() {
    std::string name = (std::filesystem::temp_directory_path() / "ranks-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    write("train.bin", 1, 3000);
    write("val.bin", 2, 3000);
    write("short.bin", 3, 100);
  }
  ~TestData() { std::filesystem::remove_all(folder_); }
  TestData(const TestData&) = delete;
  TestData& operator=(const TestData&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  void write(const std::string& name, uint32_t seed, int tokens) const {
    std::ofstream file(folder_ / name, std::ios::binary);
    std::minstd_rand random(seed);
    for (int i = 0; i < tokens; ++i) {
      const auto token = static_cast<uint16_t>(random() % 48);
      file.put(static_cast<char>(token & 0xFF)).put(static_cast<char>(token >> 8));
    }
  }
  std::filesystem::path folder_;
};

inline rendezvous::JobSpec tiny_spec(const TestData& data) {
  rendezvous::JobSpec spec;
  spec.train_data_path = data.path("train.bin");
  spec.valid_data_path = data.path("val.bin");
  spec.model = "";
  spec.n_layer = 1;
  spec.n_embd = 16;
  spec.n_head = 2;
  spec.vocab_size = 48;
  spec.block_size = 8;
  spec.batch_size = 2;
  spec.global_batch_size = 14;  // 7 microbatches: uneven over 2, 3 and 4 ranks
  spec.total_steps = 20;
  spec.warmup_steps = 5;
  spec.learning_rate = 3e-3;
  spec.min_lr = 1e-4;
  spec.dtype = "float32";
  spec.checkpoint_every = 0;
  spec.checkpoint_store = data.path("checkpoints");
  spec.collective_timeout_s = 20;
  spec.seed = 5;
  return spec;
}

// Plain loops; in programs that are linked with the GPU's kernels on the CPU (tests/kernels/shim) those.
inline std::unique_ptr<kernels::DeviceOps> test_ops(kernels::DType dtype) {
#if defined(HOLDFAST_HIP_SHIM)
  return kernels::make_hip_ops(dtype, 0);
#else
  return kernels::make_ref_ops(dtype);
#endif
}

// One rank: what a training process has, without the process.
struct TestRank {
  TestRank(const rendezvous::JobSpec& spec, const std::string& url, const std::string& name)
      : link({url, "token", name, "i-" + name, std::chrono::milliseconds(5), std::chrono::milliseconds(40)},
             [](ExitCode, const std::string& reason) { ADD_FAILURE() << reason; }),
        outbox(link),
        reporter(link) {
    auto bound = make_tcp_transport_at("127.0.0.1:0");
    if (!bound) throw std::runtime_error(bound.error().detail);
    transport = std::move(*bound);
    auto prepared = prepare_session("j1", spec, {}, test_ops);
    if (!prepared) throw std::runtime_error(prepared.error());
    session = std::move(*prepared);
    session->model->set_interrupt(interrupt.flag());
    auto store = storage::open_store(spec.checkpoint_store, "j1", {.service = rendezvous::service_stores(url, "token")});
    if (!store) throw std::runtime_error(store.error().message);
    checkpoints = std::make_unique<Checkpointing>(CheckpointSetup{.link = link,
                                                                  .outbox = outbox,
                                                                  .reporter = reporter,
                                                                  .session = *session,
                                                                  .store = std::move(*store),
                                                                  .store_name = spec.checkpoint_store});
  }

  ServiceLink link;
  Outbox outbox;
  ProgressReporter reporter;
  Profiler profiler{[](RecordedProfile) {}};
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Session> session;
  std::unique_ptr<Checkpointing> checkpoints;
  RunRequests requests;
  Interrupt interrupt;
};

class Ranks {
 public:
  Ranks(rendezvous::JobSpec spec, FakeService& service, int count = 0) : spec_(std::move(spec)), service_(service) {
    for (int i = 0; i < count; ++i) add();
  }

  void add() { ranks_.push_back(std::make_unique<TestRank>(spec_, service_.url(), "w" + std::to_string(++named_))); }
  void remove(size_t rank) { ranks_.erase(ranks_.begin() + static_cast<std::ptrdiff_t>(rank)); }
  TestRank& operator[](size_t rank) { return *ranks_[rank]; }
  size_t size() const { return ranks_.size(); }

  // Called on each rank's thread after each step.
  std::function<void(TestRank& rank, size_t number, int64_t step)> on_commit = [](TestRank&, size_t, int64_t) {};

  // Called on some thread of the rank's when it loses a neighbour while it computes.
  std::function<void(TestRank& rank, size_t number, const CollectiveError& error)> on_lost_peer = [](TestRank&, size_t,
                                                                                                     const CollectiveError&) {};

  // Called on the thread of a rank that reads a checkpoint: the store is away.
  std::function<void(const std::string& text)> on_away = [](const std::string&) {};

  FillingWindows filling;                                                    // TrainLoop::filling
  std::chrono::milliseconds older_parts_patience = std::chrono::minutes(1);  // TrainLoop::older_parts_patience
  bool look_at_stores = false;                                               // Checkpointing::look_at_store

  // One generation of all ranks there are, until all have stopped; how each did.
  std::vector<RunStop> run(const rendezvous::StateSource& source) {
    ++generation_;
    std::vector<RunStop> stops(ranks_.size());
    agreements_.assign(ranks_.size(), {});
    std::vector<std::string> addresses;
    for (const auto& rank : ranks_) addresses.push_back(rank->transport->address());
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      threads.emplace_back([&, i] {
        stops[i] = take_part(*ranks_[i], i, addresses, source);
        if (stops[i].state_is_wrong) ranks_[i]->session->distrust();
      });
    }
    threads.clear();
    return stops;
  }
  // How each rank came to its state in the last generation.
  const std::vector<StateAgreement>& agreements() const { return agreements_; }
  static rendezvous::StateSource initial() { return {}; }
  static rendezvous::StateSource memory(int64_t step) {
    rendezvous::StateSource source;
    source.kind = rendezvous::StateSource::Kind::kMemory;
    source.step = step;
    return source;
  }
  // Where the job's own checkpoints go.
  static rendezvous::StateSource checkpoint(const rendezvous::JobSpec& spec, int64_t step, const std::string& state_hash = "") {
    rendezvous::StateSource source;
    source.kind = rendezvous::StateSource::Kind::kCheckpoint;
    source.step = step;
    source.job = "j1";
    source.store = spec.checkpoint_store;
    source.state_hash = state_hash;
    return source;
  }

  // The hash of the state that all ranks have together; a failure where they differ.
  std::string hash() {
    PieceDigests all(ranks_[0]->session->state->pieces().size());
    for (const auto& rank : ranks_) {
      EXPECT_EQ(rank->session->state->step, ranks_[0]->session->state->step);
      const auto digests = rank->session->state->digests();
      for (size_t piece = 0; piece < all.size(); ++piece) {
        if (!all[piece]) all[piece] = digests[piece];
        EXPECT_TRUE(!digests[piece] || digests[piece] == all[piece]) << "piece " << piece;
      }
    }
    std::vector<storage::PieceDigest> of_all;
    for (const auto& digest : all) of_all.push_back(digest.value());
    return storage::state_hash_of(of_all);
  }

  // Ends a generation of ranks that have finished, from on_commit's or another thread.
  void interrupt_all(const std::string& reason) {
    for (const auto& rank : ranks_) rank->interrupt.raise(reason);
  }

 private:
  RunStop take_part(TestRank& rank, size_t number, const std::vector<std::string>& addresses,
                    const rendezvous::StateSource& source) {
    rank.interrupt.reset();
    rank.requests.yield = rank.requests.checkpoint = rank.requests.leaving = rank.requests.released = false;
    std::vector<std::string> members;
    for (const auto& one : ranks_) members.push_back(one->link.options().incarnation);
    rank.checkpoints->enter_generation(generation_, static_cast<int>(number), source.step, members);
    if (look_at_stores) rank.checkpoints->look_at_store("w1", "node");
    RingOptions options;
    options.job = "j1";
    options.generation = generation_;
    options.rank = static_cast<int>(number);
    options.addresses = addresses;
    options.secret = "5ec2e7";
    options.timeout = std::chrono::seconds(20);
    auto ring = Communicator::form(*rank.transport, options);
    if (!ring) return ring_stop(ring.error());
    const Interrupt::Scope abort(rank.interrupt, [&ring](const std::string& reason) { (*ring)->abort(reason); });
    const auto open = [&](const std::string& store, const std::string& job, const std::string& copy) {
      return storage::open_store(store, job,
                                 {.missing = copy.empty() ? storage::MissingFolder::kMake : storage::MissingFolder::kFail,
                                  .service = rendezvous::service_stores(service_.url(), "token"),
                                  .copy = copy});
    };
    const WhenAway when_away{.job = "j1", .tell = on_away, .leaves = [&rank] { return rank.requests.leaving.load(); }};
    auto wanted = acquire_state(source, **ring, *rank.session, open, rank.interrupt, when_away);
    if (!wanted) return wanted.error();
    StepHistory history = rank.reporter.history();
    history.truncate(*wanted);
    const Restoring restoring = [&](const ReadOnce& read) {
      return read_beside_the_ring(source, **ring, open, rank.interrupt, read, when_away);
    };
    auto agreed = rank.session->is_divided()
                      ? agree_on_divided_state(**ring, *rank.session, source, *wanted, history, "", restoring)
                      : agree_on_state(**ring, *rank.session, *wanted, history);
    if (!agreed) return agreed.error();
    agreements_[number] = *agreed;
    rank.reporter.replace_history(std::move(history), agreed->step);
    rank.reporter.begin("j1", generation_, number == 0);
    TrainLoop loop{.session = *rank.session,
                   .ring = **ring,
                   .requests = rank.requests,
                   .interrupt = rank.interrupt,
                   .reporter = rank.reporter,
                   .checkpoints = *rank.checkpoints,
                   .outbox = rank.outbox,
                   .profiler = rank.profiler,
                   .on_commit = [&](int64_t step) { on_commit(rank, number, step); },
                   .on_lost_peer = [&](const CollectiveError& error) { on_lost_peer(rank, number, error); },
                   .filling = filling,
                   .older_parts_patience = older_parts_patience};
    RunStop stop = loop.run();
    rank.reporter.end();
    return stop;
  }

  rendezvous::JobSpec spec_;
  FakeService& service_;
  std::vector<std::unique_ptr<TestRank>> ranks_;
  std::vector<StateAgreement> agreements_;
  int64_t generation_ = 0;
  int named_ = 0;
};

}  // namespace holdfast::worker
