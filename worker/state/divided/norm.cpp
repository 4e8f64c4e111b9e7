#include "worker/state/divided/norm.h"

#include <vector>

namespace holdfast::worker {

CollectiveResult<double> norm_of_all(Communicator& ring, Session& session) {
  const size_t chunks = session.state->owned().size();
  const auto me = ring.rank();
  std::vector<bool> mine(chunks);
  std::vector<std::vector<double>> of_rank(static_cast<size_t>(ring.world_size()));
  for (size_t c = 0; c < chunks; ++c) {
    const int32_t first = session.ownership.owners[c].front();
    mine[c] = first == me;
    of_rank[static_cast<size_t>(first)].push_back(0);
  }
  const std::vector<double> own = session.state->squares(session.mean_gradient(), mine);
  std::vector<std::span<std::byte>> blocks;
  for (auto& squares : of_rank) blocks.push_back(std::as_writable_bytes(std::span(squares)));
  for (size_t c = 0, next = 0; c < chunks; ++c) {
    if (mine[c]) of_rank[static_cast<size_t>(me)][next++] = own[c];
  }
  if (const auto told = ring.all_gather_into(blocks); !told) return tl::unexpected(told.error());
  std::vector<double> squares;
  std::vector<size_t> next(of_rank.size());
  for (size_t c = 0; c < chunks; ++c) {
    const auto rank = static_cast<size_t>(session.ownership.owners[c].front());
    squares.push_back(of_rank[rank][next[rank]++]);
  }
  return model::norm_of(squares);
}

}  // namespace holdfast::worker
