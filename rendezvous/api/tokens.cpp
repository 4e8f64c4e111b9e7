#include "rendezvous/api/tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/answers/views.h"
#include "rendezvous/text/plain_text.h"
#include "rendezvous/text/random_hex.h"
#include "rendezvous/text/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr int64_t kExpiryMaxS = int64_t{3650} * 24 * 3600;
constexpr size_t kNameBytesMax = 100, kTokensMax = 1000, kTokenBytes = 32;
constexpr Millis kUsedSavedEveryMs = 60'000, kStreamsCheckedEveryMs = 1000;
constexpr int64_t kExpiredKeptMs = int64_t{24} * 3600 * 1000;  // so that people see why a token is refused

Json show_token(const TokenRow& row) {
  return {{"id", row.id},
          {"name", row.name},
          {"role", role_name(row.role)},
          {"created_at", time_json(row.created_ms)},
          {"expires_at", time_json(row.expires_ms)},
          {"last_used_at", time_json(row.used_ms)}};
}

// A row without id and digest.
Outcome<TokenRow> read_request(const Json& body, int64_t wall_ms) {
  TokenRow row;
  row.created_ms = wall_ms;
  Problem bad = problem(400, "invalid_token", "");
  const auto wrong = [&](const std::string& field, const std::string& message) {
    bad.errors.push_back({field, message});
    bad.detail += fmt::format("{}{}: {}", bad.detail.empty() ? "" : "; ", field, message);
  };
  if (!body.is_object())
    return tl::unexpected(bad_field("", "expected an object such as {\"name\": \"ada\", \"role\": \"read\"}"));
  for (const auto& item : body.items()) {
    const std::string& field = item.key();
    const Json& value = item.value();
    if (field == "name") {
      if (value.is_string()) row.name = value;
      if (row.name.empty() || row.name.size() > kNameBytesMax || has_control_characters(row.name))
        wrong(field, fmt::format("must be a text of 1 to {} bytes without control characters", kNameBytesMax));
    } else if (field == "role") {
      const auto role = value.is_string() ? role_from(value.get<std::string>()) : std::nullopt;
      if (!role) {
        wrong(field, fmt::format("must be read, submit, admin or worker, not {}", value.dump().substr(0, 40)));
      } else {
        row.role = *role;
      }
    } else if (field == "expires_in_s") {
      if (!value.is_number_integer() || value < 1 || value > kExpiryMaxS) {
        wrong(field,
              fmt::format("must be a whole number of seconds from 1 to {}, not {}", kExpiryMaxS, value.dump().substr(0, 40)));
      } else {
        row.expires_ms = wall_ms + value.get<int64_t>() * 1000;
      }
    } else {
      wrong(field.substr(0, 64), "no such field; there are name, role and expires_in_s");
    }
  }
  if (!body.contains("name")) wrong("name", "is needed: it says whose token it is, and events name it");
  if (!body.contains("role")) wrong("role", "is needed: read, submit, admin or worker");
  if (!bad.errors.empty()) return tl::unexpected(bad);
  return row;
}

}  // namespace

TokenDesk::TokenDesk(Turn& turn, Followers& followers, const std::string& admin_token, const std::string& worker_token)
    : turn_(turn), followers_(followers) {
  StoredTokens stored = turn_.state.journal().store().load_tokens();
  last_token_ = stored.last_number;
  for (TokenRow& row : stored.rows) book_.add(std::move(row));
  const auto add_file = [&](const char* name, Role role, const std::string& secret) {
    book_.add({name, name, role, secret_digest(secret), 0, 0, 0, true});
  };
  add_file("worker.token", Role::kWorker, worker_token);
  add_file("admin.token", Role::kAdmin, admin_token);  // last: it wins where both files hold the same secret
}

void TokenDesk::post_token(Call& call) {
  const auto body = read_json(call.request);
  if (!body) return call.answer(body.error());
  auto row = read_request(*body, turn_.clock.wall_ms());
  if (!row) return call.answer(row.error());
  if (book_.valid_ids(turn_.clock.wall_ms()).size() >= kTokensMax)
    return call.answer(
        problem(409, "too_many", fmt::format("there are {} tokens already: revoke those that nobody uses", kTokensMax)));
  const std::string secret = "hf_" + random_hex(kTokenBytes);
  row->id = fmt::format("t{}", ++last_token_);
  row->digest = secret_digest(secret);
  turn_.state.journal().write().save_token(*row);
  turn_.state.journal().record(
      {"token_created", fmt::format("{} for {}, of role {}", row->id, row->name, role_name(row->role))});
  book_.add(*row);
  Json shown = show_token(*row);
  shown["token"] = secret;
  HttpResponse response = json_answer(201, shown);
  response.headers["Location"] = "/v1/tokens/" + row->id;
  call.answer(std::move(response));
}

void TokenDesk::get_tokens(Call& call) {
  Json list = Json::array();
  for (const TokenRow& row : book_.list()) list.push_back(show_token(row));
  call.answer(json_answer(200, {{"tokens", std::move(list)}, {"next_page_token", nullptr}}));
}

void TokenDesk::delete_token(Call& call) {
  const std::string& id = call.arguments[0];
  const std::vector<TokenRow> known = book_.list();
  const auto found = std::ranges::find(known, id, &TokenRow::id);
  if (found == known.end())
    return call.answer(problem(404, "not_found",
                               fmt::format("there is no token {}; GET /v1/tokens lists them", shortened(id, kWordBytesMax))));
  if (found->of_file) {
    return call.answer(
        problem(409, "wrong_state",
                fmt::format("{0} is a file in the service's data directory: stop the service, remove the file and "
                            "start it again, and a new one is made",
                            id)));
  }
  book_.remove(id);
  turn_.state.journal().write().remove_token(id);
  turn_.state.journal().record({"token_revoked", fmt::format("{} of {}", id, found->name)});
  end_streams_without_token();
  call.answer(empty_answer());
}

void TokenDesk::get_whoami(Call& call) {
  const TokenRow& who = *call.who;
  call.answer(json_answer(
      200, {{"token", {{"id", who.id}, {"name", who.name}, {"role", role_name(who.role)}}}, {"version", kHoldfastVersion}}));
}

void TokenDesk::end_streams_without_token() {
  if (followers_.count() > 0) followers_.end_all_but(book_.valid_ids(turn_.clock.wall_ms()));
}

void TokenDesk::tend() {
  const Millis now = turn_.clock.steady_ms();
  if (now >= streams_checked_ms_ + kStreamsCheckedEveryMs) {
    streams_checked_ms_ = now;
    end_streams_without_token();
  }
  if (now < used_saved_ms_ + kUsedSavedEveryMs) return;
  used_saved_ms_ = now;
  for (const TokenRow& row : book_.take_used()) turn_.state.journal().write().save_token(row);
  for (const TokenRow& row : book_.list()) {
    if (row.expires_ms == 0 || row.expires_ms + kExpiredKeptMs > turn_.clock.wall_ms()) continue;
    if (book_.remove(row.id)) turn_.state.journal().write().remove_token(row.id);
  }
}

}  // namespace holdfast::rendezvous
