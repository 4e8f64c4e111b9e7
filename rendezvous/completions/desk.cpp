#include "rendezvous/completions/desk.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "rendezvous/completions/completion.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/text/random_hex.h"

namespace holdfast::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

// Of a stream that tells prompts: all texts of a request may do so in one pass, before its reader can have read any.
constexpr size_t kUnreadBytesMax = 4 << 20;
constexpr size_t kLongBytes = 16 << 10;  // of texts that become tokens aside: a fraction of a millisecond

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

// A request and its prompts as tokens of this tokenizer.
struct CompletionDesk::Encoded {
  CompletionRequest request;
  std::string body;
  std::shared_ptr<const model::Tokenizer> tokenizer;
  Clock::time_point came = Clock::now();
  std::vector<std::vector<int32_t>> prompts = {};
};

// A request whose texts are being written. The thread that they come on and the connection's meet here.
struct CompletionDesk::Ongoing {
  Ongoing(std::string its_id, CompletionHead head, Encoded encoded, std::shared_ptr<Counts> its_counts)
      : id(std::move(its_id)),
        tokenizer(std::move(encoded.tokenizer)),
        counts(std::move(its_counts)),
        completion(std::move(head), std::move(encoded.request), std::move(encoded.prompts), *tokenizer),
        begun(encoded.came) {}

  const std::string id;
  const std::shared_ptr<const model::Tokenizer> tokenizer;
  const std::shared_ptr<Counts> counts;
  std::mutex mutex;  // guards what follows
  Completion completion;
  std::shared_ptr<EventStream> stream;
  std::string unsent;  // before there is a stream
  bool is_gone = false, is_done = false;
  const Clock::time_point begun;
  std::optional<Clock::time_point> first;

  bool progress(size_t index, const std::vector<model::WrittenToken>& tokens, TextOutcome outcome) {
    const std::lock_guard lock(mutex);
    if (stream != nullptr && !stream->write("")) is_gone = true;
    if (is_gone) {
      give_up();
      return false;
    }
    if (!first && !tokens.empty() && !tokens.back().of_prompt) {
      first = Clock::now();
      counts->first_token.add(seconds(*first - begun));
    }
    std::string bytes;
    const bool goes_on = completion.add(index, tokens, outcome, bytes);
    if (completion.has_ended()) {
      bytes += completion.request().stream ? completion.last_events() : json_text(completion.answer());
      is_done = true;
    }
    send(std::move(bytes));
    if (is_done) tell_how_it_ended();
    return goes_on;
  }

  void begin_stream(std::shared_ptr<EventStream> its_stream) {
    const std::lock_guard lock(mutex);
    stream = std::move(its_stream);
    send(std::exchange(unsent, {}));
  }
  void lose() {
    const std::lock_guard lock(mutex);
    is_gone = is_gone || !is_done;
  }

 private:
  void send(std::string bytes) {
    if (stream == nullptr) {
      unsent += bytes;
      return;
    }
    if (!stream->write(bytes)) is_gone = true;
    if (is_done) stream->close();
  }
  void give_up() {
    if (!std::exchange(is_done, true)) tell_how_it_ended();
  }
  void tell_how_it_ended() {
    if (is_gone) {
      ++counts->abandoned;
      spdlog::info("{}: the client has gone, or reads too slowly, after {} tokens", id, completion.written_tokens());
      return;
    }
    spdlog::info("{}: {} texts, {} + {} tokens, the first after {:.3f} s, all after {:.3f} s", id, completion.texts(),
                 completion.prompt_tokens(), completion.written_tokens(), first ? seconds(*first - begun) : 0.0,
                 seconds(Clock::now() - begun));
  }
};

HttpResponse CompletionDesk::refuse(const ApiError& error) {
  ++(error.status == 429 ? counts_->busy : counts_->refused);
  HttpResponse response{.status = error.status, .body = json_text(json_of(error))};
  if (error.status == 429 || error.status == 503) response.headers["Retry-After"] = "1";
  if (error.status == 401) response.headers["WWW-Authenticate"] = "Bearer";
  return response;
}

HttpResponse CompletionDesk::refuse(const TextRefused& refused) {
  if (refused.is_busy)
    return refuse(ApiError{.status = 429, .type = "rate_limit_error", .message = refused.why, .code = "busy"});
  return refuse(ApiError{.message = refused.why, .param = refused.why.substr(0, refused.why.find(':'))});
}

void CompletionDesk::take(const HttpRequest& request, const Reply& reply, const Find& find, const Aside& aside) {
  auto order = read_completion_request(request.body);
  if (!order) return reply(refuse(order.error()));
  const auto asked = find(order->model);
  if (!asked) return reply(refuse(asked.error()));
  if (const auto excess = excess_of(*order, asked->block_size)) return reply(refuse(*excess));
  const auto texts = static_cast<int64_t>(order->prompts.size()) * order->n;
  if (const auto refused = asked->texts->refusal_of(texts)) return reply(refuse(*refused));

  const bool is_long = request.body.size() > kLongBytes;
  const auto encoded = std::make_shared<Encoded>(*std::move(order), request.body, asked->tokenizer);
  const auto encode = [encoded] { encoded->prompts = prompts_of(encoded->request, *encoded->tokenizer); };
  if (!aside || !is_long) {
    encode();
    return write(std::move(*encoded), *asked, reply);
  }
  const auto not_now = [this, reply](const std::string& why) {
    reply(refuse(ApiError{.status = 503, .type = "server_error", .message = why + ": try again later", .code = "not_ready"}));
  };
  const auto then = [this, encoded, reply, find, not_now](const std::string& why_not) {
    if (!why_not.empty()) return not_now("prompt: could not be made tokens of: " + why_not);
    const auto now = find(encoded->request.model);
    if (!now) return reply(refuse(now.error()));
    if (now->tokenizer != encoded->tokenizer) return not_now("model: another one has its name now");
    write(std::move(*encoded), *now, reply);
  };
  if (!aside(encode, then)) not_now("prompt: many long ones are being read");
}

void CompletionDesk::write(Encoded encoded, const AskedModel& asked, const Reply& reply) {
  const CompletionRequest& order = encoded.request;
  const uint64_t seed = order.seed.value_or(std::random_device()() & 0x7fffffff);
  const bool streams = order.stream, echoes = order.echo;
  CompletionHead head{
      .id = fmt::format("cmpl-{}-{}", random_hex(6), next_id_++),
      .model = asked.name,
      .fingerprint = asked.fingerprint,
      .created_s =
          std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count(),
      .seed = seed};
  const std::string id = head.id;
  if (settings_.logs_requests) spdlog::info("{}: {}", id, json_text(Json::parse(encoded.body)));
  const auto ongoing = std::make_shared<Ongoing>(id, std::move(head), std::move(encoded), counts_);
  std::vector<TextOrder> orders;
  for (size_t i = 0; i < ongoing->completion.texts(); ++i) {
    orders.push_back(
        {ongoing->completion.order(i), [ongoing, i](const std::vector<model::WrittenToken>& tokens, TextOutcome outcome) {
           return ongoing->progress(i, tokens, outcome);
         }});
  }
  if (const auto refused = asked.texts->submit(std::move(orders), settings_.patience)) return reply(refuse(*refused));
  ++counts_->taken;
  // The answer is a stream even where it is one piece of JSON: so a reader that goes away is noticed while texts are written.
  HttpResponse response{.content_type = streams ? "text/event-stream" : "application/json"};
  if (echoes) response.stream_unread_max = kUnreadBytesMax;
  response.headers["Cache-Control"] = "no-cache";
  response.headers["X-Request-Id"] = id;
  const auto lost = std::shared_ptr<void>(nullptr, [ongoing](void*) {
    const bool never_began = [&] {
      const std::lock_guard lock(ongoing->mutex);
      return ongoing->stream == nullptr;
    }();
    if (never_began) ongoing->lose();
  });
  response.on_stream = [ongoing, lost](std::shared_ptr<EventStream> stream) { ongoing->begin_stream(std::move(stream)); };
  reply(std::move(response));
}

void CompletionDesk::add_metrics(PrometheusText& text) const {
  const auto number = [](int64_t count) { return static_cast<double>(count); };
  text.family("holdfast_serve_requests_total", "counter", "Requests for texts, by what became of them.");
  text.sample({{"result", "taken"}}, number(counts_->taken));
  text.sample({{"result", "refused"}}, number(counts_->refused));
  text.sample({{"result", "busy"}}, number(counts_->busy));
  text.family("holdfast_serve_abandoned_total", "counter", "Requests whose client went away.");
  text.sample(number(counts_->abandoned));
  counts_->first_token.add_to(text, "holdfast_serve_first_token_seconds", "Time from a request to its first token.");
}

}  // namespace holdfast::rendezvous
