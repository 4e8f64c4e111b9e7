// Times the ring all-reduce between processes, on one node or several.
//
//   bench_allreduce --fork 2                                         N ranks on loopback, forked from this process
//   bench_allreduce --rank 0 --world 2 --listen 10.77.0.1:29600 --addresses 10.77.0.1:29600,10.77.0.2:29600
//
// Prints one JSON line per iteration from rank 0, the first (a warm-up) left out: seconds from a barrier to the end, and the
// bus rate, bytes * 2 (N-1) / N / seconds, which does not depend on N where the links are the limit. Every element of every
// result is checked; a wrong one ends it with exit code 1.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "worker/collectives/communicator.h"
#include "worker/transport.h"

namespace {

using holdfast::worker::Communicator;
using holdfast::worker::RingOptions;
using holdfast::worker::Transport;

struct Settings {
  int rank = 0, world = 2, fork = 0, iterations = 6;
  std::string listen, dtype = "float32";
  std::vector<std::string> addresses;
  size_t elements = 30142848;  // the parameters of Tiny
  size_t chunk_bytes = RingOptions{}.chunk_bytes;
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

// Small integers: their sums are exact in float32 too.
template <typename T>
T input(size_t index, int rank) {
  return static_cast<T>(static_cast<int>(index % 1000) + rank);
}

template <typename T>
bool correct(const std::vector<T>& sums, int world) {
  const int ranks = world * (world - 1) / 2;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != static_cast<T>(static_cast<int>(i % 1000) * world + ranks)) return false;
  }
  return true;
}

template <typename T>
int measure(Communicator& ring, const Settings& settings) {
  std::vector<T> mine(settings.elements), sums(settings.elements);
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = input<T>(i, ring.rank());
  for (int iteration = 0; iteration < settings.iterations; ++iteration) {
    if (!barrier(ring)) return complain(ring.rank(), "the barrier failed");
    const auto start = std::chrono::steady_clock::now();
    const auto summed = ring.all_reduce_sum(std::span<const T>(mine), std::span<T>(sums));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!summed) return complain(ring.rank(), summed.error().detail);
    if (!correct(sums, ring.world_size())) return complain(ring.rank(), "wrong sums");
    if (ring.rank() != 0 || iteration == 0) continue;
    const double bytes = static_cast<double>(settings.elements) * sizeof(T);
    const double bus = bytes * 2 * (ring.world_size() - 1) / ring.world_size() / seconds / 1e6;
    std::printf(
        "{\"bench\": \"allreduce\", \"world\": %d, \"dtype\": \"%s\", \"megabytes\": %.1f, \"seconds\": %.6f, "
        "\"bus_megabytes_per_second\": %.1f}\n",
        ring.world_size(), settings.dtype.c_str(), bytes / 1e6, seconds, bus);
    std::fflush(stdout);
  }
  return 0;
}

int run_rank(Transport& transport, const Settings& settings) {
  RingOptions options;
  options.job = "bench";
  options.rank = settings.rank;
  options.addresses = settings.addresses;
  options.secret = "00";
  options.chunk_bytes = settings.chunk_bytes;
  auto ring = Communicator::form(transport, options);
  if (!ring) return complain(settings.rank, ring.error().detail);
  return settings.dtype == "int32" ? measure<int32_t>(**ring, settings) : measure<float>(**ring, settings);
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
  app.add_option("--elements", settings.elements, "Elements of 4 bytes")->capture_default_str();
  app.add_option("--iterations", settings.iterations, "Including the warm-up")->capture_default_str();
  app.add_option("--dtype", settings.dtype, "float32 or int32")
      ->check(CLI::IsMember({"float32", "int32"}))
      ->capture_default_str();
  app.add_option("--chunk_bytes", settings.chunk_bytes, "What a segment is cut into")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (settings.fork > 0) return run_forked(settings);
  if (settings.rank < 0 || settings.rank >= settings.world ||
      settings.addresses.size() != static_cast<size_t>(settings.world)) {
    std::fprintf(stderr, "--addresses must name %d ranks and --rank be one of them, or use --fork\n", settings.world);
    return 2;
  }
  return run_one(settings);
}
