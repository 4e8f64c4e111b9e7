// Runs the threads of a block as fibers: the blocks of a launch one after the other, and in each block the lanes in turn.
#include <hip/hip_runtime.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/dtype.h"
#include "tests/kernels/shim/fiber.h"
#include "tests/kernels/shim/runtime.h"

namespace shim {
namespace {

constexpr unsigned kGroup = 32, kPair = 64;  // lanes that exchange values; lanes of the widest wave
constexpr unsigned char kNoise = 0xcb;       // -2.7e7 as a float: a read of unwritten memory is noticed

enum class Waits : uint8_t { kForNothing, kForGroup, kForPair, kForBlock };

// Fibers that are free. Their stacks are used again, because to allocate a stack takes longer than most kernels.
class Fibers {
 public:
  Fiber take() {
    if (free_.empty()) return {};
    Fiber fiber = std::move(free_.back());
    free_.pop_back();
    return fiber;
  }
  void give_back(Fiber&& fiber) { free_.push_back(std::move(fiber)); }

 private:
  std::vector<Fiber> free_;
};
Fibers& fibers() {
  static auto* const all = new Fibers;  // lives until the end of the process
  return *all;
}

struct Lane {
  Lane() : fiber(fibers().take()) {}
  ~Lane() { fibers().give_back(std::move(fiber)); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Fiber fiber;
  Thread index{};
  Waits waits = Waits::kForNothing;
  std::array<float, 2> given{};  // by the parity of the exchange: no lane is two exchanges ahead of another
  unsigned exchanges = 0;
  const void* registers = nullptr;
};

std::mt19937_64 shuffler{1};

class Block {
 public:
  Block(unsigned number, unsigned blocks, unsigned threads) : lanes_(threads) {
    if (threads == 0 || threads % 64 != 0)
      give_up("a block of " + std::to_string(threads) + " threads is not whole waves of 64");
    for (unsigned i = 0; i < threads; ++i) lanes_[i].index = {{i}, {number}, {threads}, {blocks}};
  }

  void run(const std::function<void()>& body) {
    for (Lane& lane : lanes_) lane.fiber.start(body);
    std::vector<unsigned> pairs(lanes_.size() / kPair);
    std::iota(pairs.begin(), pairs.end(), 0U);
    while (!all_ended()) {
      std::shuffle(pairs.begin(), pairs.end(), shuffler);
      for (const unsigned pair : pairs) run_pair(pair);
      release_block();
    }
  }

  static Block& now() { return *now_; }
  Lane& lane() { return *lane_; }

  float exchange(float value, int source) {
    Lane& mine = *lane_;
    if (source < 0 || source >= static_cast<int>(kGroup)) give_up("lane " + std::to_string(source) + " is asked for its value");
    const unsigned turn = mine.exchanges++ % 2;
    mine.given[turn] = value;
    wait(Waits::kForGroup);
    const unsigned first = mine.index.thread.x / kGroup * kGroup;
    return lanes_[first + static_cast<unsigned>(source)].given[turn];
  }
  std::vector<const void*> registers(const void* own, unsigned wave) {
    lane_->registers = own;
    wait_for_wave(wave);
    const unsigned first = lane_->index.thread.x / wave * wave;
    std::vector<const void*> all;
    for (unsigned i = 0; i < wave; ++i) all.push_back(lanes_[first + i].registers);
    return all;
  }
  void wait_for_wave(unsigned wave) { wait(wave == kPair ? Waits::kForPair : Waits::kForGroup); }
  void wait(Waits why) {
    lane_->waits = why;
    Fiber::suspend();
  }
  void* shared(const char* file, int line, size_t bytes) {
    auto& memory = shared_[{file, line}];
    if (memory == nullptr) {
      memory = std::make_unique<unsigned char[]>(bytes);
      std::fill_n(memory.get(), bytes, kNoise);
    }
    return memory.get();
  }

 private:
  // Runs kPair lanes until all of them wait for the block, or have ended.
  void run_pair(unsigned pair) {
    const unsigned first = pair * kPair;
    std::vector<unsigned> order(kPair);
    std::iota(order.begin(), order.end(), first);
    do {
      std::shuffle(order.begin(), order.end(), shuffler);
      for (const unsigned number : order) run_lane(lanes_[number]);
    } while (release(first, kPair, Waits::kForPair) | release(first, kGroup, Waits::kForGroup) |
             release(first + kGroup, kGroup, Waits::kForGroup));
  }
  void run_lane(Lane& lane) {
    if (lane.fiber.ended() || lane.waits != Waits::kForNothing) return;
    Block* const before = std::exchange(now_, this);
    lane_ = &lane;
    lane.fiber.resume();
    now_ = before;
  }
  // If these lanes wait for each other for this reason, lets them go on and returns true.
  bool release(unsigned first, unsigned count, Waits why) {
    const auto begin = lanes_.begin() + first, end = begin + count;
    const auto waiting = std::count_if(begin, end, [&](const Lane& lane) { return lane.waits == why; });
    if (waiting == 0) return false;
    if (waiting != count) {
      give_up("only " + std::to_string(waiting) + " of " + std::to_string(count) + " lanes came to an exchange, in block " +
              std::to_string(begin->index.block.x));
    }
    for (auto lane = begin; lane != end; ++lane) lane->waits = Waits::kForNothing;
    return true;
  }
  bool all_ended() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.fiber.ended(); });
  }
  void release_block() {
    const auto waiting =
        std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.waits == Waits::kForBlock; });
    if (waiting == 0) return;
    if (static_cast<size_t>(waiting) != lanes_.size()) {
      give_up("only " + std::to_string(waiting) + " of " + std::to_string(lanes_.size()) +
              " threads came to a barrier, in block " + std::to_string(lanes_.front().index.block.x));
    }
    for (Lane& lane : lanes_) lane.waits = Waits::kForNothing;
  }

  std::vector<Lane> lanes_;
  std::map<std::pair<std::string, int>, std::unique_ptr<unsigned char[]>> shared_;
  Lane* lane_ = nullptr;
  static inline Block* now_ = nullptr;
};

}  // namespace

void give_up(const std::string& what) {
  std::fprintf(stderr, "kernel on the CPU: %s\n", what.c_str());
  std::abort();
}

const Thread& current() {
  return Block::now().lane().index;
}
float from_lane(float value, int source) {
  return Block::now().exchange(value, source);
}
std::vector<const void*> registers_of_wave(const void* own, int wave) {
  return Block::now().registers(own, static_cast<unsigned>(wave));
}
void wait_for_wave(int wave) {
  Block::now().wait_for_wave(static_cast<unsigned>(wave));
}
void barrier() {
  Block::now().wait(Waits::kForBlock);
}
void* shared(const char* file, int line, size_t bytes) {
  return Block::now().shared(file, line, bytes);
}

float widen_half(uint16_t bits) {
  return _cvtsh_ss(bits);
}
uint16_t narrow_half(float value) {
  return holdfast::kernels::Float16(value).bits;
}

void run_blocks(unsigned blocks, unsigned threads, const std::function<void()>& body) {
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), shuffler);
  for (const unsigned number : order) Block(number, blocks, threads).run(body);
}

void shuffle_with(uint64_t seed) {
  shuffler.seed(seed);
  shuffle_streams_with(seed);
}

}  // namespace shim
