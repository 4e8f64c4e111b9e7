// Each word costs a look at every chunk: a hundred thousand of them take about a millisecond.
#include "rendezvous/data_sets/hand_out.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

namespace holdfast::rendezvous {
namespace {

// Spreads neighbours (the finalizer of MurmurHash3), so that each worker has an order of its own where chunks are equally rare.
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

}  // namespace

std::vector<int64_t> HandOut::say(const HoldersRequest& request, const std::vector<bool>& have, int64_t now_ms) {
  forget_silent(now_ms);
  const Worker& worker = told(request, have, now_ms);
  std::vector<int64_t> take = choose(request, worker, now_ms);
  for (const int64_t chunk : take) given_[static_cast<size_t>(chunk)] = {worker.number, now_ms};
  return take;
}

HandOut::Worker& HandOut::told(const HoldersRequest& request, const std::vector<bool>& have, int64_t now_ms) {
  const auto known = workers_.find(request.worker);
  if (known != workers_.end() && known->second.incarnation != request.incarnation) forget(request.worker);
  Worker& worker = workers_[request.worker];
  if (worker.number == 0) {
    worker.number = ++last_number_;
    worker.incarnation = request.incarnation;
    worker.have.resize(have.size());
    worker.fed_ms = now_ms;
    by_number_[worker.number] = &worker;
  }
  count(worker, -1);
  const std::vector<bool> had = std::exchange(worker.have, have);
  worker.address = request.address;
  worker.pin = request.pin;
  worker.bits = request.have;
  worker.said_ms = now_ms;
  note_feeding(worker, had, now_ms);
  count(worker, 1);
  return worker;
}

void HandOut::count(const Worker& worker, int change) {
  if (worker.address.empty()) return;
  for (size_t chunk = 0; chunk < worker.have.size(); ++chunk) {
    if (worker.have[chunk]) givers_[chunk] += change;
  }
}

// Called while `worker` itself is not counted among the givers.
void HandOut::note_feeding(Worker& worker, const std::vector<bool>& had, int64_t now_ms) const {
  bool could_be_fed = false, was_fed = false;
  for (size_t chunk = 0; chunk < had.size() && !was_fed; ++chunk) {
    if (!worker.have[chunk]) could_be_fed = could_be_fed || givers_[chunk] > 0;
    was_fed = worker.have[chunk] && !had[chunk] && given_[chunk].to != worker.number;
  }
  if (was_fed || !could_be_fed) worker.fed_ms = now_ms;
}

bool HandOut::on_its_way(size_t chunk, int64_t now_ms) const {
  const Given& given = given_[chunk];
  const auto taker = by_number_.find(given.to);
  return taker != by_number_.end() && !taker->second->have[chunk] && now_ms < given.at_ms + kLateMs;
}

std::vector<int64_t> HandOut::choose(const HoldersRequest& request, const Worker& worker, int64_t now_ms) const {
  const auto room = static_cast<size_t>(std::clamp<int64_t>(request.room, 0, kTakeMax));
  if (room == 0) return {};
  const bool cut_off = now_ms >= worker.fed_ms + kLateMs;
  const auto is_free = [&](size_t chunk) {
    return !worker.have[chunk] && (givers_[chunk] == 0 || cut_off) && !on_its_way(chunk, now_ms);
  };
  std::vector<int64_t> take;
  for (const int64_t chunk : request.first) {
    if (take.size() == room) return take;
    if (is_free(static_cast<size_t>(chunk)) && std::ranges::find(take, chunk) == take.end()) take.push_back(chunk);
  }
  using Rank = std::tuple<int32_t, uint64_t, int64_t>;  // rare first; then in this worker's own order
  const uint64_t own = mixed(std::hash<std::string>{}(request.worker));
  std::vector<Rank> best;  // a heap, the worst on top
  const size_t more = room - take.size();
  for (size_t chunk = 0; chunk < given_.size() && more > 0; ++chunk) {
    const Rank rank{givers_[chunk], mixed(own ^ chunk), static_cast<int64_t>(chunk)};
    const bool is_better = best.size() < more || rank < best.front();
    if (!is_better || !is_free(chunk) || std::ranges::find(take, std::get<2>(rank)) != take.end()) continue;
    best.push_back(rank);
    std::ranges::push_heap(best);
    if (best.size() <= more) continue;
    std::ranges::pop_heap(best);
    best.pop_back();
  }
  std::ranges::sort(best);
  for (const Rank& rank : best) take.push_back(std::get<2>(rank));
  return take;
}

std::vector<Holder> HandOut::others_than(const std::string& worker) const {
  std::vector<Holder> others;
  for (const auto& [name, other] : workers_) {
    if (name != worker && !other.address.empty()) others.push_back({name, other.address, other.bits, other.pin});
  }
  return others;
}

void HandOut::forget(const std::string& worker) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  count(found->second, -1);
  by_number_.erase(found->second.number);
  workers_.erase(found);
}

void HandOut::forget_silent(int64_t now_ms) {
  std::vector<std::string> silent;
  for (const auto& [name, worker] : workers_) {
    if (now_ms >= worker.said_ms + kSilentMs) silent.push_back(name);
  }
  for (const std::string& name : silent) forget(name);
}

}  // namespace holdfast::rendezvous
