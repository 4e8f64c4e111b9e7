#include "rendezvous/api/data_sets/holders.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "rendezvous/data_sets/pinned.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kNameBytesMax = 200;  // of a worker, an incarnation, an address, a pin

Outcome<HoldersRequest> read_word(const HttpRequest& http) {
  const auto body = read_json(http);
  if (!body) return tl::unexpected(body.error());
  HoldersRequest request;
  try {
    request = holders_request_from_json(*body);
  } catch (const std::invalid_argument& wrong) {
    return tl::unexpected(bad_field("", wrong.what(), "invalid_message"));
  }
  for (const auto& [field, text] : {std::pair("worker", &request.worker), std::pair("incarnation", &request.incarnation),
                                    std::pair("address", &request.address), std::pair("pin", &request.pin)}) {
    const bool may_be_empty = text == &request.address || text == &request.pin;
    if (text->size() > kNameBytesMax || (text->empty() && !may_be_empty))
      return tl::unexpected(
          bad_field(field, fmt::format("has {} bytes, expected {} to {}", text->size(), may_be_empty ? 0 : 1, kNameBytesMax)));
  }
  return request;
}

// The chunks that the worker has, of a data set with so many.
Outcome<std::vector<bool>> read_chunks(const HoldersRequest& request, int64_t chunks) {
  auto have = chunks_of_bits(request.have, chunks);
  if (!have) return tl::unexpected(bad_field("have", have.error()));
  if (std::ranges::any_of(request.first, [&](int64_t chunk) { return chunk < 0 || chunk >= chunks; }))
    return tl::unexpected(bad_field("first", fmt::format("has chunks that the data set lacks: expected 0 to {}", chunks - 1)));
  return *std::move(have);
}

}  // namespace

void DataHoldersApi::post_holders(Call& call) {
  const auto request = read_word(call.request);
  if (!request) return call.answer(request.error());
  const Catalogue& catalogue = keeper_.catalogue();
  const KeptDataSet* set = catalogue.find_digest(call.arguments[0]);
  if (set == nullptr)
    return call.answer(problem(404, "not_found", no_such_data_set(catalogue, call.arguments[0].substr(0, 80))));
  const int64_t chunks = set->manifest->chunks();
  const auto have = read_chunks(*request, chunks);
  if (!have) return call.answer(have.error());
  const Coordinator& state = keeper_.turn().state;
  if (const auto over = state.refusal_if_ended(request->worker, request->incarnation)) return call.answer(*over);
  HandOut& hand_out = by_digest_.try_emplace(set->digest, chunks).first->second;
  hand_out.forget_if([&](const std::string& worker, const std::string& incarnation) {
    return state.refusal_if_ended(worker, incarnation).has_value();
  });
  if (hand_out.is_full_for(request->worker))
    return call.answer(problem(503, "unavailable", "more workers than are allowed fetch this data set just now: try again"));
  HoldersReply reply;
  reply.take = hand_out.say(*request, *have, keeper_.turn().clock.steady_ms());
  // A chunk that was found damaged cannot be given: it is asked for again when a push has repaired it.
  std::erase_if(reply.take, [&](int64_t chunk) { return !catalogue.chunks().has(*chunk_at(*set->manifest, chunk).name); });
  reply.holders = hand_out.others_than(request->worker);
  reply.key = set->key;
  call.answer(json_answer(200, to_json(reply)));
}

void DataHoldersApi::tend() {
  const int64_t now_ms = keeper_.turn().clock.steady_ms();
  for (auto& [digest, hand_out] : by_digest_) hand_out.forget_silent(now_ms);
  std::erase_if(by_digest_, [&](const auto& entry) {
    return entry.second.nobody_left() || keeper_.catalogue().find_digest(entry.first) == nullptr;
  });
}

}  // namespace holdfast::rendezvous
