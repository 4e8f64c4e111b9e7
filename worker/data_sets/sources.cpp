#include "worker/data_sets/sources.h"

#include <algorithm>

namespace holdfast::worker {

ChunkSources::ChunkSources(int64_t chunks, uint64_t salt)
    : chunks_(chunks), salt_(salt), on_their_way_(static_cast<size_t>(chunks)) {
  sources_.push_back({.address = "", .worker = "", .pin = "", .has = std::vector<bool>(static_cast<size_t>(chunks))});
}

ChunkSources::Source* ChunkSources::find(const std::string& address) {
  const auto found = std::ranges::find(sources_, address, &Source::address);
  return found == sources_.end() ? nullptr : &*found;
}

WantedChunks ChunkSources::wanted(const std::vector<bool>& have, Time now) const {
  WantedChunks wanted{.settled = have, .first = first_, .copies = std::vector<int>(have.size())};
  for (size_t chunk = 0; chunk < have.size(); ++chunk) {
    const Way& way = on_their_way_[chunk];
    if (way.count > 0 && now - way.begun < kLate) wanted.settled[chunk] = true;
    for (const Source& source : sources_) wanted.copies[chunk] += source.has[chunk] ? 1 : 0;
  }
  return wanted;
}

// The service's connection is what all workers wait for, so it is never left idle; then workers in turn.
std::optional<ChunkSources::Task> ChunkSources::next_chunk(const std::vector<bool>& have, Time now) {
  const WantedChunks wanted = this->wanted(have, now);
  std::vector<Source*> order;
  for (Source& source : sources_) {
    if (source.busy < kAtOnce && source.quiet_until <= now) order.push_back(&source);
  }
  std::ranges::stable_sort(order, {}, [](const Source* source) { return source->address.empty() ? -1 : source->busy; });
  for (Source* source : order) {
    const int64_t chunk = choose_chunk(wanted, source->has, salt_);
    if (chunk < 0) continue;
    ++source->busy;
    Way& way = on_their_way_[static_cast<size_t>(chunk)];
    ++way.count;
    way.begun = now;
    return Task{source->address, source->worker, chunk, source->pin};
  }
  return std::nullopt;
}

std::optional<ChunkSources::Task> ChunkSources::next(const std::vector<bool>& have, Time now) {
  if (auto task = next_chunk(have, now)) return task;
  for (Source& source : sources_) {
    const bool may_have_more = std::ranges::find(source.has, false) != source.has.end();
    if (source.address.empty() || source.busy >= kAtOnce || source.quiet_until > now || source.look_at > now || !may_have_more)
      continue;
    ++source.busy;
    source.look_at = now + kLookEvery;
    return Task{source.address, source.worker, -1, source.pin};
  }
  return std::nullopt;
}

void ChunkSources::ended(const Task& task) {
  if (Source* source = find(task.address); source != nullptr && source->busy > 0) --source->busy;
  if (task.chunk < 0) return;
  if (Way& way = on_their_way_[static_cast<size_t>(task.chunk)]; way.count > 0) --way.count;
}

void ChunkSources::got(const Task& task) {
  ended(task);
  if (Source* source = find(task.address)) source->failures = 0;
  ++(task.address.empty() ? from_service_ : from_workers_);
  if (!task.address.empty() && std::ranges::find(gave_, task.worker) == gave_.end()) gave_.push_back(task.worker);
}

void ChunkSources::failed(const Task& task, Time now) {
  ended(task);
  if (task.chunk >= 0) on_their_way_[static_cast<size_t>(task.chunk)].begun = {};
  Source* source = find(task.address);
  if (source == nullptr) return;
  const auto quiet = kQuietFirst * (1 << std::min(source->failures++, 10));
  source->quiet_until = now + std::min<Time::duration>(quiet, kQuietLongest);
}

void ChunkSources::learned(const Task& task, const std::vector<bool>& has) {
  ended(task);
  Source* source = find(task.address);
  if (source == nullptr) return;
  source->failures = 0;
  source->has = has;
}

void ChunkSources::take(const rendezvous::HoldersReply& reply) {
  for (const int64_t chunk : reply.take) {
    if (chunk >= 0 && chunk < chunks_) sources_.front().has[static_cast<size_t>(chunk)] = true;
  }
  const auto is_gone = [&](const Source& source) {
    return !source.address.empty() &&
           std::ranges::find(reply.holders, source.address, &rendezvous::Holder::address) == reply.holders.end();
  };
  std::erase_if(sources_, is_gone);
  for (const rendezvous::Holder& holder : reply.holders) {
    if (holder.address.empty() || holder.pin.empty()) continue;
    const auto has = rendezvous::chunks_of_bits(holder.have, chunks_);
    if (!has) continue;
    Source* source = find(holder.address);
    if (source == nullptr) {
      sources_.push_back({.address = holder.address, .worker = holder.worker, .pin = holder.pin, .has = *has});
      continue;
    }
    source->pin = holder.pin;  // another program may listen there now
    // The service knows less than the worker itself said since.
    for (size_t chunk = 0; chunk < has->size(); ++chunk) {
      if ((*has)[chunk]) source->has[chunk] = true;
    }
  }
}

void ChunkSources::need_first(const std::vector<int64_t>& chunks) {
  std::vector<int64_t> all = chunks;
  for (const int64_t chunk : first_) {
    if (std::ranges::find(chunks, chunk) == chunks.end()) all.push_back(chunk);
  }
  if (all.size() > rendezvous::kFirstMax) all.resize(rendezvous::kFirstMax);
  first_ = std::move(all);
}

std::vector<int64_t> ChunkSources::needed_first(const std::vector<bool>& have) const {
  std::vector<int64_t> missing;
  for (const int64_t chunk : first_) {
    if (!have[static_cast<size_t>(chunk)]) missing.push_back(chunk);
  }
  return missing;
}

int64_t ChunkSources::given_by_service(const std::vector<bool>& have) const {
  int64_t given = 0;
  for (size_t chunk = 0; chunk < have.size(); ++chunk) given += sources_.front().has[chunk] && !have[chunk] ? 1 : 0;
  return given;
}

}  // namespace holdfast::worker
