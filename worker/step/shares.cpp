#include "worker/step/shares.h"

#include <algorithm>
#include <numeric>

#include "rendezvous/protocol/job_spec.h"
#include "worker/invariants/invariant.h"
#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {
namespace {

constexpr uint32_t kKeptMagic = 0x314b4648;  // "HFK1"

}  // namespace

std::vector<int64_t> even_counts(int64_t microbatches, const std::vector<bool>& computing) {
  const auto ranks = static_cast<int>(std::ranges::count(computing, true));
  std::vector<int64_t> counts;
  for (int next = 0; const bool computes : computing) {
    const auto share = computes ? rendezvous::deal(microbatches, ranks, next++) : rendezvous::Share{};
    counts.push_back(share.last - share.first);
  }
  return counts;
}

StepShares deal_counts(std::span<const int64_t> counts) {
  StepShares shares;
  int64_t first = 0;
  for (const int64_t count : counts) {
    Microbatches all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), first);
    first += count;
    shares.own.push_back(std::move(all));
  }
  shares.to_compute = shares.own;
  shares.keeps.assign(counts.size(), true);
  return shares;
}

StepShares deal_rest(int64_t microbatches, const std::vector<Microbatches>& kept, const std::vector<bool>& computing) {
  const size_t world_size = kept.size();
  if (computing.empty()) return deal_rest(microbatches, kept, std::vector<bool>(world_size, true));
  StepShares shares;
  shares.to_compute.resize(world_size);
  shares.own.resize(world_size);
  std::vector<bool> done(static_cast<size_t>(microbatches));
  for (size_t rank = 0; rank < world_size; ++rank) {
    const bool counts = std::ranges::none_of(kept[rank], [&](int64_t m) { return done[static_cast<size_t>(m)]; });
    shares.keeps.push_back(counts);
    if (!counts) continue;
    for (const int64_t m : kept[rank]) done[static_cast<size_t>(m)] = true;
    shares.own[rank] = kept[rank];
    shares.kept += static_cast<int64_t>(kept[rank].size());
  }
  if (shares.kept == 0) return deal_counts(even_counts(microbatches, computing));

  // The number of further microbatches for each rank: each one goes to the rank that has least.
  std::vector<size_t> more(world_size);
  for (int64_t left = microbatches - shares.kept; left > 0; --left) {
    auto least = static_cast<size_t>(std::ranges::find(computing, true) - computing.begin());
    for (size_t rank = least + 1; rank < world_size; ++rank) {
      if (!computing[rank]) continue;
      if (shares.own[rank].size() + more[rank] < shares.own[least].size() + more[least]) least = rank;
    }
    ++more[least];
  }
  size_t rank = 0;
  for (int64_t m = 0; m < microbatches; ++m) {
    if (done[static_cast<size_t>(m)]) continue;
    while (more[rank] == 0) ++rank;
    --more[rank];
    shares.to_compute[rank].push_back(m);
  }
  for (size_t r = 0; r < world_size; ++r) {
    shares.own[r].insert(shares.own[r].end(), shares.to_compute[r].begin(), shares.to_compute[r].end());
    std::ranges::sort(shares.own[r]);
  }
  return shares;
}

void require_dealt_once(const StepShares& shares, int64_t microbatches, int64_t step) {
  std::vector<int> owner(static_cast<size_t>(microbatches), -1);
  const auto where = [&](int64_t m) {
    return "step " + std::to_string(step + 1) + ": microbatch " + std::to_string(m) + " of " + std::to_string(microbatches);
  };
  for (size_t rank = 0; rank < shares.own.size(); ++rank) {
    for (const int64_t m : shares.own[rank]) {
      must_hold(m >= 0 && m < microbatches, [&] { return where(m) + " is dealt to rank " + std::to_string(rank); });
      int& of = owner[static_cast<size_t>(m)];
      must_hold(of < 0,
                [&] { return where(m) + " is dealt twice, to ranks " + std::to_string(of) + " and " + std::to_string(rank); });
      of = static_cast<int>(rank);
    }
  }
  const auto missing = std::ranges::find(owner, -1);
  must_hold(missing == owner.end(), [&] { return where(missing - owner.begin()) + " is dealt to no rank"; });
}

std::vector<rendezvous::DealtShare> for_ledger(const StepShares& shares, int64_t microbatches) {
  std::vector<rendezvous::DealtShare> dealt;
  const auto world_size = static_cast<int>(shares.own.size());
  int64_t all = 0;
  for (const Microbatches& own : shares.own) all += static_cast<int64_t>(own.size()) * microbatches;
  bool as_usual = true;
  for (int rank = 0; rank < world_size; ++rank) {
    const size_t first_of_rank = dealt.size();
    for (const int64_t unit : shares.own[static_cast<size_t>(rank)]) {
      if (dealt.size() > first_of_rank && dealt.back().last == unit * microbatches) {
        dealt.back().last += microbatches;
      } else {
        dealt.push_back({rank, unit * microbatches, (unit + 1) * microbatches});
      }
    }
    const auto usual = rendezvous::deal(all, world_size, rank);
    const bool nothing = dealt.size() == first_of_rank, one = dealt.size() == first_of_rank + 1;
    as_usual = as_usual && ((nothing && usual.first == usual.last) ||
                            (one && dealt.back().first == usual.first && dealt.back().last == usual.last));
  }
  return as_usual ? std::vector<rendezvous::DealtShare>() : dealt;
}

std::vector<std::byte> encode_kept(std::span<const int64_t> kept) {
  WireWriter out;
  out.put(kKeptMagic);
  out.put(static_cast<uint32_t>(kept.size()));
  for (const int64_t microbatch : kept) out.put_i64(microbatch);
  return out.take();
}

tl::expected<Microbatches, std::string> decode_kept(std::span<const std::byte> bytes, int64_t microbatches) {
  WireReader in(bytes);
  if (in.get<uint32_t>() != kKeptMagic)
    return tl::unexpected<std::string>("a list of kept microbatches does not begin with HFK1");
  const auto count = in.get<uint32_t>();
  if (!in.has(size_t{count} * sizeof(int64_t)) || count > static_cast<uint64_t>(microbatches))
    return tl::unexpected("a list of " + std::to_string(count) + " kept microbatches in " + std::to_string(bytes.size()) +
                          " bytes");
  Microbatches kept;
  for (uint32_t i = 0; i < count; ++i) {
    const int64_t microbatch = in.get_i64();
    if (microbatch < 0 || microbatch >= microbatches || (!kept.empty() && microbatch <= kept.back()))
      return tl::unexpected("a list of kept microbatches has " + std::to_string(microbatch) + " out of order or range");
    kept.push_back(microbatch);
  }
  if (!in.done()) return tl::unexpected<std::string>("a list of kept microbatches is longer than its contents");
  return kept;
}

}  // namespace holdfast::worker
