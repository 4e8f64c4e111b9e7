// Routes of tokens: made, listed, revoked; and who one is.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/protocol/plain_text.h"
#include "rendezvous/secrets.h"
#include "rendezvous/service_impl.h"
#include "rendezvous/text_bounds.h"
#include "rendezvous/views.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr int64_t kExpiryMaxS = int64_t{3650} * 24 * 3600;
constexpr size_t kNameBytesMax = 100, kTokensMax = 1000, kTokenBytes = 32;
constexpr Millis kUsedSavedEveryMs = 60'000, kStreamsCheckedEveryMs = 1000;
constexpr int64_t kExpiredKeptMs = int64_t{24} * 3600 * 1000;  // so that people see why one is no longer good

Json show_token(const TokenRow& row) {
  return {{"id", row.id},
          {"name", row.name},
          {"role", role_name(row.role)},
          {"created_at", time_text(row.created_ms)},
          {"expires_at", time_text(row.expires_ms)},
          {"last_used_at", time_text(row.used_ms)}};
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

void Service::Impl::post_token(Call& call) {
  const auto body = read_json(call.request);
  if (!body) return answer(call, body.error());
  auto row = read_request(*body, clock_.wall_ms());
  if (!row) return answer(call, row.error());
  if (tokens_.valid_ids(clock_.wall_ms()).size() >= kTokensMax)
    return answer(
        call, problem(409, "too_many", fmt::format("there are {} tokens already: revoke those that nobody uses", kTokensMax)));
  const std::string secret = "hf_" + random_hex(kTokenBytes);
  row->id = fmt::format("t{}", ++last_token_);
  row->digest = secret_digest(secret);
  state_.write().save_token(*row);
  state_.event("", "token_created", fmt::format("{} for {}, of role {}", row->id, row->name, role_name(row->role)));
  tokens_.add(*row);
  Json shown = show_token(*row);
  shown["token"] = secret;
  HttpResponse response = json_answer(201, shown);
  response.headers["Location"] = "/v1/tokens/" + row->id;
  answer(call, std::move(response));
}

void Service::Impl::get_tokens(Call& call) {
  Json list = Json::array();
  for (const TokenRow& row : tokens_.list()) list.push_back(show_token(row));
  answer(call, json_answer(200, {{"tokens", std::move(list)}, {"next_page_token", nullptr}}));
}

void Service::Impl::delete_token(Call& call) {
  const std::string& id = call.arguments[0];
  const std::vector<TokenRow> known = tokens_.list();
  const auto found = std::ranges::find(known, id, &TokenRow::id);
  if (found == known.end())
    return answer(call, problem(404, "not_found",
                                fmt::format("there is no token {}; GET /v1/tokens lists them", shortened(id, kWordBytesMax))));
  if (found->of_file) {
    return answer(call,
                  problem(409, "wrong_state",
                          fmt::format("{0} is a file in the service's data directory: stop the service, remove the file and "
                                      "start it again, and a new one is made",
                                      id)));
  }
  tokens_.remove(id);
  state_.write().remove_token(id);
  state_.event("", "token_revoked", fmt::format("{} of {}", id, found->name));
  end_streams_without_token();
  answer(call, empty_answer());
}

void Service::Impl::get_whoami(Call& call) {
  const TokenRow& who = *call.who;
  answer(call, json_answer(200, {{"token", {{"id", who.id}, {"name", who.name}, {"role", role_name(who.role)}}},
                                 {"version", kHoldfastVersion}}));
}

// Streams end with the token that they were opened with: revoked, or expired since.
void Service::Impl::end_streams_without_token() {
  if (followers_.empty()) return;
  const std::set<std::string> valid = tokens_.valid_ids(clock_.wall_ms());
  std::erase_if(followers_, [&](const Follower& follower) {
    if (valid.contains(follower.token)) return false;
    follower.stream->close();
    return true;
  });
}

void Service::Impl::keep_tokens() {
  const Millis now = clock_.steady_ms();
  if (now >= streams_checked_ms_ + kStreamsCheckedEveryMs) {
    streams_checked_ms_ = now;
    end_streams_without_token();
  }
  if (now < used_saved_ms_ + kUsedSavedEveryMs) return;
  used_saved_ms_ = now;
  for (const TokenRow& row : tokens_.take_used()) state_.write().save_token(row);
  for (const TokenRow& row : tokens_.list()) {
    if (row.expires_ms == 0 || row.expires_ms + kExpiredKeptMs > clock_.wall_ms()) continue;
    if (tokens_.remove(row.id)) state_.write().remove_token(row.id);
  }
}

}  // namespace holdfast::rendezvous
