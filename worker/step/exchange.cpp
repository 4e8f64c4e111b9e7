#include "worker/step/exchange.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "rendezvous/text/list_in_words.h"
#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {
namespace {

constexpr uint32_t kReportMagic = 0x32584648;  // "HFX2"
constexpr uint32_t kYield = 1, kCheckpoint = 2, kLeaving = 4, kNotFinite = 8, kAllFlags = 15;

Disagreement disagreement(size_t rank, const std::string& what, const std::string& own, const std::string& first) {
  return {"rank " + std::to_string(rank) + " has " + what + " " + own + ", rank 0 has " + first +
              ": their states cannot be the same",
          {}};
}

// The ranks in words: "3" or "1 and 3".
std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> numbers;
  for (const int rank : ranks) numbers.push_back(std::to_string(rank));
  return rendezvous::in_words(numbers);
}

using RanksByWord = std::map<std::string, std::vector<int>>;

// The ranks whose word is not that of more than half of all ranks; none when no word has more than half.
std::vector<int> minority(const RanksByWord& ranks_of, size_t world_size) {
  std::vector<int> odd;
  bool decided = false;
  for (const auto& [_, ranks] : ranks_of) {
    const bool most = 2 * ranks.size() > world_size;
    decided |= most;
    if (!most) odd.insert(odd.end(), ranks.begin(), ranks.end());
  }
  if (!decided) odd.clear();
  std::ranges::sort(odd);
  return odd;
}

// "step 12 applied, tokens digest 81985529216486895"
std::string in_words(std::span<const std::byte> verdict) {
  WireReader in(verdict);
  const int64_t step = in.get_i64();
  const auto digest = in.get<uint64_t>();
  const bool refused = in.get<uint8_t>() != 0;
  if (!in.done()) return std::to_string(verdict.size()) + " bytes that are no verdict";
  return "step " + std::to_string(step) + (refused ? " left out" : " applied") + ", tokens digest " + std::to_string(digest);
}

}  // namespace

std::vector<std::byte> encode(const StepReport& report) {
  WireWriter out;
  out.put(kReportMagic);
  out.put_i64(report.step);
  out.put((report.yield ? kYield : 0U) | (report.checkpoint ? kCheckpoint : 0U) | (report.leaving ? kLeaving : 0U) |
          (report.finite ? 0U : kNotFinite));
  out.put_i64(report.loss);
  out.put(report.tokens_digest);
  out.put_i64(report.acknowledged);
  out.put_i64(report.refused_in_row);
  out.put_i64(report.compute_us);
  out.put(static_cast<uint32_t>(report.maxima.size()));
  for (const float largest : report.maxima) out.put_f32(largest);
  return out.take();
}

tl::expected<StepReport, std::string> decode_step_report(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  if (in.get<uint32_t>() != kReportMagic) return tl::unexpected<std::string>("a step report does not begin with HFX2");
  StepReport report;
  report.step = in.get_i64();
  const auto flags = in.get<uint32_t>();
  if ((flags & ~kAllFlags) != 0) return tl::unexpected("a step report has unknown flags " + std::to_string(flags));
  report.yield = (flags & kYield) != 0;
  report.checkpoint = (flags & kCheckpoint) != 0;
  report.leaving = (flags & kLeaving) != 0;
  report.finite = (flags & kNotFinite) == 0;
  report.loss = in.get_i64();
  report.tokens_digest = in.get<uint64_t>();
  report.acknowledged = in.get_i64();
  report.refused_in_row = in.get_i64();
  report.compute_us = in.get_i64();
  const auto count = in.get<uint32_t>();
  if (!in.has(size_t{count} * sizeof(float))) {
    return tl::unexpected("a step report of " + std::to_string(bytes.size()) + " bytes is cut short");
  }
  report.maxima.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const float largest = in.get_f32();
    if (std::isnan(largest) || std::signbit(largest))
      return tl::unexpected<std::string>("a step report has a largest magnitude below 0");
    report.maxima.push_back(largest);
  }
  if (!in.done())
    return tl::unexpected("a step report of " + std::to_string(bytes.size()) + " bytes is longer than its contents");
  return report;
}

std::optional<Disagreement> compare_hashes(int64_t step, std::span<const std::string> hashes) {
  RanksByWord ranks_of;
  for (size_t rank = 0; rank < hashes.size(); ++rank) ranks_of[hashes[rank]].push_back(static_cast<int>(rank));
  if (ranks_of.size() < 2) return std::nullopt;
  std::string text = "after step " + std::to_string(step);
  for (const auto& [hash, ranks] : ranks_of) {
    text += (hash == ranks_of.begin()->first ? " the hash of the state is " : ", ") + hash + " at rank " + rank_list(ranks);
  }
  return Disagreement{text, minority(ranks_of, hashes.size())};
}

std::vector<std::byte> encode(const StepVerdict& verdict) {
  WireWriter out;
  out.put_i64(verdict.step);
  out.put(verdict.tokens_digest);
  out.put(static_cast<uint8_t>(verdict.refused ? 1 : 0));
  return out.take();
}

std::optional<Disagreement> compare_verdicts(std::span<const std::vector<std::byte>> verdicts) {
  RanksByWord ranks_of;
  for (size_t rank = 0; rank < verdicts.size(); ++rank) {
    if (!verdicts[rank].empty()) ranks_of[in_words(verdicts[rank])].push_back(static_cast<int>(rank));
  }
  if (ranks_of.size() < 2) return std::nullopt;
  std::string text = "the ranks do not agree on what they committed:";
  for (const auto& [verdict, ranks] : ranks_of) {
    text += (verdict == ranks_of.begin()->first ? " " : ", ") + verdict + " at rank " + rank_list(ranks);
  }
  return Disagreement{text, minority(ranks_of, verdicts.size())};
}

tl::expected<StepAgreement, Disagreement> agree(std::span<const StepReport> reports) {
  const StepReport& first = reports.front();
  StepAgreement agreed;
  agreed.all_leaving = true;
  agreed.maxima.assign(first.maxima.size(), 0.0F);
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const StepReport& report = reports[rank];
    if (report.step != first.step) {
      return tl::unexpected(disagreement(rank, "step", std::to_string(report.step), std::to_string(first.step)));
    }
    if (report.maxima.size() != first.maxima.size()) {
      return tl::unexpected(disagreement(rank, "a number of tensors of", std::to_string(report.maxima.size()),
                                         std::to_string(first.maxima.size())));
    }
    agreed.yield |= report.yield || report.leaving || report.checkpoint;
    agreed.checkpoint |= report.checkpoint;
    agreed.all_leaving &= report.leaving;
    agreed.finite &= report.finite;
    agreed.loss = static_cast<int64_t>(static_cast<uint64_t>(agreed.loss) + static_cast<uint64_t>(report.loss));
    agreed.tokens_digest += report.tokens_digest;
    agreed.acknowledged = std::max(agreed.acknowledged, report.acknowledged);
    agreed.refused_in_row = std::max(agreed.refused_in_row, report.refused_in_row);
    agreed.compute_us.push_back(report.compute_us);
    for (size_t t = 0; t < agreed.maxima.size(); ++t) agreed.maxima[t] = std::max(agreed.maxima[t], report.maxima[t]);
  }
  return agreed;
}

}  // namespace holdfast::worker
