// Times the ring all-reduce between processes, on one node or several.
//
//   bench_allreduce --fork 2                                         N ranks on loopback, forked from this process
//   bench_allreduce --rank 0 --world 2 --listen 10.77.0.1:29600 --addresses 10.77.0.1:29600,10.77.0.2:29600
//
// --dtype is what a job's wire_dtype is. Prints one JSON line per iteration from rank 0, the first (a warm-up) left out:
// seconds from a barrier to the end, and the bus rate: what each rank sends over its link, divided by the seconds. That is
// bytes * 2 (N-1) / N where they go round the ring (ranks of one node send fewer, and through memory, unless --flat), and bytes
// * ((N-1) / 2 + (N-1) / N) for int8, which has an all-to-all in its first half (worker/collectives/README.md). For 16-bit
// floats and int8 what a job does beside the ring counts: rounding what is brought, and widening the result. Every element of
// every result is checked; a wrong one ends it with exit code 1.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "worker/collectives/block_quantized.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/half_floats.h"
#include "worker/collectives/quantized_reduce.h"
#include "worker/transport/transport.h"

namespace {

using holdfast::worker::BFloat16;
using holdfast::worker::CollectiveResult;
using holdfast::worker::Communicator;
using holdfast::worker::Float16;
using holdfast::worker::QuantizedReduction;
using holdfast::worker::RingOptions;
using holdfast::worker::Transport;

struct Settings {
  int rank = 0, world = 2, fork = 0, iterations = 6;
  std::string listen, dtype = "float32";
  std::vector<std::string> addresses;
  size_t elements = 30142848;  // the parameters of Tiny
  size_t chunk_bytes = RingOptions{}.chunk_bytes;
  bool flat = false, encrypted = false;
};

int complain(int rank, const std::string& detail) {
  std::fprintf(stderr, "rank %d: %s\n", rank, detail.c_str());
  return 1;
}

// Every rank passes this before any leaves it.
bool barrier(Communicator& ring) {
  std::vector<int32_t> nothing(static_cast<size_t>(ring.world_size())), sum(nothing.size());
  return ring.all_reduce_sum(nothing, sum).has_value();
}

// Integers so small that their sums, of up to 64 ranks, are exact in bfloat16 too.
// `pattern` is 0 to 3, of no period that a chunk could have.
int pattern(size_t index) {
  return static_cast<int>((static_cast<uint32_t>(index) * 2654435761u) >> 30);
}
int input(int pattern_there, int rank) {
  return (pattern_there + rank) % 4;
}

// The steps that a job takes with a gradient of floats or of integers, from its sums to the sums of all ranks in full width.
template <typename T>
struct Plain {
  using Value = T;
  explicit Plain(size_t) {}
  CollectiveResult<void> sum(Communicator& ring, std::span<const T> mine, std::span<T> sums) {
    return ring.all_reduce_sum(mine, sums);
  }
  static double wire_bytes(size_t elements, int world) {
    return static_cast<double>(elements) * sizeof(T) * 2 * (world - 1) / world;
  }
  static constexpr float kTolerance = 0;
};

template <typename Half>
struct Narrowed {
  using Value = float;
  explicit Narrowed(size_t elements) : mine_(elements), sums_(elements) {}
  CollectiveResult<void> sum(Communicator& ring, std::span<const float> mine, std::span<float> sums) {
    narrow(mine, mine_);
    if (auto done = ring.all_reduce_sum(std::span<const Half>(mine_), std::span<Half>(sums_)); !done) return done;
    widen(std::span<const Half>(sums_), sums);
    return {};
  }
  static double wire_bytes(size_t elements, int world) { return Plain<Half>::wire_bytes(elements, world); }
  static constexpr float kTolerance = 0;

 private:
  std::vector<Half> mine_, sums_;
};

struct Quantized {
  using Value = float;
  explicit Quantized(size_t elements) : reduction_(elements) {}
  CollectiveResult<void> sum(Communicator& ring, std::span<const float> mine, std::span<float> sums) {
    auto done = reduction_.reduce(ring, 0, mine, sums);
    if (done) reduction_.commit();
    return done;
  }
  static double wire_bytes(size_t elements, int world) {
    const auto bytes = static_cast<double>(holdfast::worker::quantized_bytes(elements));
    return bytes * (world - 1) * (0.5 + 1.0 / world);
  }
  static constexpr float kTolerance =
      3 * 4.5F / 254;  // a rank: half a quantum of 3, its share of the sum's, and both again from before

 private:
  QuantizedReduction reduction_;
};

template <typename T>
bool correct(const std::vector<T>& sums, int world, float tolerance) {
  int expected[4] = {};  // by pattern
  for (int i = 0; i < 4; ++i) {
    for (int rank = 0; rank < world; ++rank) expected[i] += input(i, rank);
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const float off = static_cast<float>(sums[i]) - static_cast<float>(expected[pattern(i)]);
    if (!(std::fabs(off) <= tolerance * static_cast<float>(world))) return false;
  }
  return true;
}

template <typename Wire>
int measure(Communicator& ring, const Settings& settings) {
  using Value = typename Wire::Value;
  Wire wire(settings.elements);
  std::vector<Value> mine(settings.elements), sums(settings.elements);
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<Value>(input(pattern(i), ring.rank()));
  for (int iteration = 0; iteration < settings.iterations; ++iteration) {
    if (!barrier(ring)) return complain(ring.rank(), "the barrier failed");
    const auto start = std::chrono::steady_clock::now();
    const auto summed = wire.sum(ring, mine, sums);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!summed) return complain(ring.rank(), summed.error().detail);
    if (!correct(sums, ring.world_size(), Wire::kTolerance)) return complain(ring.rank(), "wrong sums");
    if (ring.rank() != 0 || iteration == 0) continue;
    const double sent = Wire::wire_bytes(settings.elements, ring.world_size());
    std::printf(
        "{\"bench\": \"allreduce\", \"world\": %d, \"dtype\": \"%s\", \"elements\": %zu, \"sent_megabytes\": %.1f, "
        "\"seconds\": %.6f, \"bus_megabytes_per_second\": %.1f}\n",
        ring.world_size(), settings.dtype.c_str(), settings.elements, sent / 1e6, seconds, sent / seconds / 1e6);
    std::fflush(stdout);
  }
  return 0;
}

struct WireKind {
  const char* dtype;
  int (*measure)(Communicator&, const Settings&);
};
constexpr WireKind kWires[] = {{"int32", measure<Plain<int32_t>>},      {"int16", measure<Plain<int16_t>>},
                               {"float32", measure<Plain<float>>},      {"bfloat16", measure<Narrowed<BFloat16>>},
                               {"float16", measure<Narrowed<Float16>>}, {"int8", measure<Quantized>}};

const WireKind* wire_of(const std::string& dtype) {
  const auto* found = std::ranges::find_if(kWires, [&](const WireKind& kind) { return dtype == kind.dtype; });
  return found == std::end(kWires) ? nullptr : found;
}

int run_rank(Transport& transport, const Settings& settings) {
  RingOptions options;
  options.job = "bench";
  options.rank = settings.rank;
  options.addresses = settings.addresses;
  options.secret = "00";
  options.chunk_bytes = settings.chunk_bytes;
  options.encrypted = settings.encrypted;
  // A rank's process begins when the machine has time for it; a ring gives up on an address where nobody listens.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!transport.refusing(settings.addresses, std::chrono::milliseconds(100)).empty() &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto ring = Communicator::form(transport, options);
  if (!ring) return complain(settings.rank, ring.error().detail);
  if (const auto shared = (*ring)->share_memory(settings.flat ? "" : transport.node()); !shared)
    return complain(settings.rank, shared.error().detail);
  return wire_of(settings.dtype)->measure(**ring, settings);
}

// All listeners are opened here and inherited, so that every rank knows every address.
int run_forked(Settings settings) {
  std::vector<std::unique_ptr<Transport>> transports;
  settings.world = settings.fork;
  for (int rank = 0; rank < settings.world; ++rank) {
    auto transport = holdfast::worker::make_tcp_transport("", "127.0.0.1");
    if (!transport) return complain(rank, transport.error().detail);
    settings.addresses.push_back((*transport)->address());
    transports.push_back(std::move(*transport));
  }
  for (settings.rank = 0; settings.rank < settings.world; ++settings.rank) {
    const pid_t child = fork();
    if (child < 0) return complain(settings.rank, "cannot fork");
    if (child == 0) _exit(run_rank(*transports[static_cast<size_t>(settings.rank)], settings));
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;) worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  return worst;
}

int run_one(const Settings& settings) {
  const std::string listen = settings.listen.empty() ? settings.addresses[static_cast<size_t>(settings.rank)] : settings.listen;
  auto transport = holdfast::worker::make_tcp_transport_at(listen);
  if (!transport) return complain(settings.rank, transport.error().detail);
  return run_rank(**transport, settings);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Times the ring all-reduce between processes."};
  auto* fork_option = app.add_option("--fork", settings.fork, "Ranks to fork on loopback")->check(CLI::Range(1, 64));
  app.add_option("--rank", settings.rank, "This rank")->excludes(fork_option);
  app.add_option("--world", settings.world, "Ranks")->excludes(fork_option);
  app.add_option("--addresses", settings.addresses, "Every rank's host:port, in order")->delimiter(',')->excludes(fork_option);
  app.add_option("--listen", settings.listen, "host:port to listen on; this rank's address unless given")
      ->excludes(fork_option);
  app.add_option("--elements", settings.elements, "Elements to sum")->capture_default_str();
  app.add_option("--iterations", settings.iterations, "Including the warm-up")->capture_default_str();
  std::vector<std::string> dtypes;
  for (const WireKind& kind : kWires) dtypes.emplace_back(kind.dtype);
  app.add_option("--dtype", settings.dtype, "What goes over the wire")->check(CLI::IsMember(dtypes))->capture_default_str();
  app.add_option("--chunk_bytes", settings.chunk_bytes, "What a segment is cut into")->capture_default_str();
  app.add_flag("--flat", settings.flat, "One ring over sockets, also among ranks of one node");
  app.add_flag("--encrypted", settings.encrypted, "TLS on every connection, as a job's ring_tls");
  CLI11_PARSE(app, argc, argv);
  if (settings.fork > 0) return run_forked(settings);
  if (settings.rank < 0 || settings.rank >= settings.world ||
      settings.addresses.size() != static_cast<size_t>(settings.world)) {
    std::fprintf(stderr, "--addresses must name %d ranks and --rank be one of them, or use --fork\n", settings.world);
    return 2;
  }
  return run_one(settings);
}
