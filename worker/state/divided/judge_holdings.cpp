#include "worker/state/divided/judge_holdings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace holdfast::worker {
namespace {

using storage::PieceDigest;

class Judging {
 public:
  Judging(std::vector<Held> held, const PieceKinds& pieces) : held_(std::move(held)), chunks_(pieces.chunks) {
    const size_t count = held_.front().digests.size();
    found_.pieces = pieces;
    found_.right.resize(count);
    found_.has.assign(count, RankSet(held_.size()));
    for (const Held& one : held_) {
      found_.nodes.push_back(one.node);
      found_.newcomers.push_back(one.is_new);
    }
  }

  Holdings run() {
    const bool with_copies = found_.pieces.hashed < found_.right.size();
    for (size_t c = 0; c < chunks_; ++c) {
      std::vector<size_t> pieces{c, chunks_ + c, 2 * chunks_ + c};
      if (with_copies) pieces.push_back(found_.pieces.hashed + c);
      judge(pieces, c);
    }
    for (size_t piece = 3 * chunks_; piece < found_.pieces.hashed; ++piece) judge({piece}, std::nullopt);
    std::ranges::sort(found_.odd);
    const auto repeated = std::ranges::unique(found_.odd);
    found_.odd.erase(repeated.begin(), repeated.end());
    return std::move(found_);
  }

 private:
  // The pieces go together: a rank whose word counts has all of them.
  void judge(const std::vector<size_t>& pieces, std::optional<size_t> chunk) {
    std::map<std::vector<PieceDigest>, std::vector<size_t>> ranks_of;
    size_t voices = 0;
    for (size_t rank = 0; rank < held_.size(); ++rank) {
      const Held& one = held_[rank];
      if (!one.counts || !std::ranges::all_of(pieces, [&](size_t piece) { return one.digests[piece].has_value(); })) continue;
      std::vector<PieceDigest> digests;
      for (const size_t piece : pieces) digests.push_back(*one.digests[piece]);
      ranks_of[digests].push_back(rank);
      ++voices;
    }
    if (ranks_of.empty()) {
      if (chunk) found_.lost.push_back(*chunk);
      return;
    }
    const auto most = std::ranges::max_element(ranks_of, {}, [](const auto& entry) { return entry.second.size(); });
    if (ranks_of.size() > 1 && 2 * most->second.size() <= voices && !found_.differs) found_.differs = in_words(ranks_of, chunk);
    for (const auto& [digests, ranks] : ranks_of) {
      if (&digests != &most->first) found_.odd.insert(found_.odd.end(), ranks.begin(), ranks.end());
    }
    for (size_t i = 0; i < pieces.size(); ++i) mark(pieces[i], most->first[i]);
  }

  void mark(size_t piece, const PieceDigest& right) {
    found_.right[piece] = right;
    for (size_t rank = 0; rank < held_.size(); ++rank) {
      const auto& digest = held_[rank].digests[piece];
      found_.has[piece][rank] = digest == right;
      if (held_[rank].counts && digest && *digest != right) found_.odd.push_back(static_cast<int>(rank));
    }
  }

  static std::string in_words(const std::map<std::vector<PieceDigest>, std::vector<size_t>>& ranks_of,
                              std::optional<size_t> chunk) {
    const auto first = ranks_of.begin(), second = std::next(first);
    return fmt::format("{} is another one at rank {} than at rank {}, and no more than half agree",
                       chunk ? fmt::format("chunk {} of the state", *chunk) : "what belongs to no chunk",
                       second->second.front(), first->second.front());
  }

  std::vector<Held> held_;
  size_t chunks_;
  Holdings found_;
};

}  // namespace

Holdings judge_holdings(std::vector<Held> held, const PieceKinds& pieces) {
  return Judging(std::move(held), pieces).run();
}

}  // namespace holdfast::worker
