// The answer to a request for texts: its log-probabilities, what of it is refused, and where its prompts become tokens.
#include "rendezvous/completions/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "model/data/byte_tokenizer.h"
#include "rendezvous/completions/desk.h"

namespace holdfast::rendezvous {
namespace {

using model::WrittenToken;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::json;

CompletionRequest request_of(Json fields) {
  if (fields.value("echo", false)) fields.emplace("logprobs", 1);
  fields.update({{"model", "m"}, {"prompt", "ab"}});
  auto request = read_completion_request(fields.dump());
  EXPECT_TRUE(request) << request.error().message;
  return *std::move(request);
}

// The log-probabilities of a text that gets these tokens one by one.
Json logprobs_of(const Json& fields, const std::vector<WrittenToken>& tokens) {
  const auto tokenizer = model::make_byte_tokenizer();
  CompletionRequest request = request_of(fields);
  auto prompts = prompts_of(request, *tokenizer);
  Completion completion({.id = "c", .model = "m", .fingerprint = "f"}, std::move(request), std::move(prompts), *tokenizer);
  std::string events;
  for (size_t i = 0; i < tokens.size(); ++i)
    completion.add(0, {tokens[i]}, i + 1 < tokens.size() ? TextOutcome::kGoesOn : TextOutcome::kLength, events);
  EXPECT_TRUE(completion.has_ended());
  if (!completion.request().stream) return completion.answer()["choices"][0]["logprobs"];
  Json all;
  for (size_t at = 0; (at = events.find("data: {", at)) != std::string::npos; ++at) {
    const Json event = Json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6));
    for (const auto& [name, list] : event["choices"][0]["logprobs"].items()) {
      for (const Json& value : list) all[name].push_back(value);
    }
  }
  return all;
}

TEST(Completion, ChancesAreTheSameInOnePieceAndInAStream) {
  const std::vector<WrittenToken> tokens = {{.token = {'b', -1}, .alternatives = {{'b', -1}, {'c', -2}}, .of_prompt = true},
                                            {.token = {'x', -3}, .alternatives = {{'y', -0.5}, {'x', -3}}},
                                            {.token = {'z', -4}, .alternatives = {{'z', -4}, {'y', -5}}}};
  const Json whole = logprobs_of({{"logprobs", 2}, {"echo", true}}, tokens);
  EXPECT_EQ(whole["tokens"], (Json{"a", "b", "x", "z"}));
  EXPECT_EQ(whole["token_logprobs"], (Json{nullptr, -1.0, -3.0, -4.0}));
  EXPECT_EQ(whole["top_logprobs"][0], nullptr);
  EXPECT_EQ(whole["top_logprobs"][2], (Json{{"y", -0.5}, {"x", -3.0}}));
  EXPECT_EQ(whole["text_offset"], (Json{0, 1, 2, 3}));
  EXPECT_EQ(logprobs_of({{"logprobs", 2}, {"echo", true}, {"stream", true}}, tokens), whole);
  EXPECT_EQ(logprobs_of({{"logprobs", 0}}, {tokens[1]})["top_logprobs"], (Json{nullptr}));
}

TEST(Completion, OfTokensThatAreShownAlikeTheLikeliestCounts) {
  const Json chances =
      logprobs_of({{"logprobs", 3}}, {{.token = {'x', -3}, .alternatives = {{0x80, -0.5}, {'x', -3}, {0x81, -4}}}});
  EXPECT_EQ(chances["top_logprobs"][0], (Json{{"\xEF\xBF\xBD", -0.5}, {"x", -3.0}}));
}

TEST(Completion, MoreChancesThanAnAnswerMayHoldAreRefusedByName) {
  const Json many = {{"logprobs", 20}, {"n", 128}, {"max_tokens", 1024}};
  const auto why = [&](const Json& changes) {
    Json fields = many;
    fields.update(changes);
    const auto excess = excess_of(request_of(fields), 1024);
    return excess ? excess->param + "|" + excess->message : "";
  };
  EXPECT_THAT(
      why({{"max_tokens", 2000}}),
      HasSubstr("logprobs|logprobs: up to 131072 tokens with 21 numbers each are 2752512 numbers in one answer, expected "
                "at most 131072: ask for fewer at once, or a server for a stream"));
  EXPECT_THAT(why({{"n", 6}}), IsEmpty());
  EXPECT_THAT(why({{"stream", true}}), IsEmpty());
  EXPECT_THAT(why({{"logprobs", nullptr}}), IsEmpty());
  EXPECT_THAT(why({{"max_tokens", 16}}), IsEmpty());
  const Json of_prompt = {{"max_tokens", 0}, {"echo", true}};
  EXPECT_THAT(why(of_prompt), IsEmpty());
  CompletionRequest longer = request_of(of_prompt);
  longer.logprobs = 20;
  longer.prompts.assign(64, std::string(200, 'a'));
  EXPECT_TRUE(excess_of(longer, 1024)) << "the prompts' tokens count";
  EXPECT_FALSE(excess_of(longer, 64));
}

// Texts that nobody writes.
class Noted : public Texts {
 public:
  std::optional<TextRefused> submit(std::vector<TextOrder> orders, std::chrono::milliseconds) override {
    for (TextOrder& order : orders) taken.push_back(std::move(order));
    return {};
  }
  std::optional<TextRefused> refusal_of(int64_t texts) const override {
    if (texts <= most) return {};
    return TextRefused{.is_busy = true, .why = "too many"};
  }
  std::vector<TextOrder> taken;
  int64_t most = 10;
};

class DeskTest : public testing::Test {
 protected:
  // The answer's status; 0: none yet.
  int ask(const Json& prompt, int64_t n = 1) {
    status = 0;
    const HttpRequest request{.method = "POST",
                              .path = "/",
                              .query = {},
                              .headers = {},
                              .body = Json{{"model", "m"}, {"prompt", prompt}, {"n", n}}.dump(),
                              .peer = "here"};
    desk.take(
        request, [this](const HttpResponse& response) { status = response.status; },
        [this](const std::string&) {
          return AskedModel{.name = "m", .fingerprint = "f", .block_size = 100'000, .tokenizer = tokenizer, .texts = texts};
        },
        [this](std::function<void()> work, CompletionDesk::Then then) {
          aside = [work = std::move(work), then = std::move(then)](const std::string& why_not) {
            if (why_not.empty()) work();
            then(why_not);
          };
          return has_time;
        });
    return status;
  }
  std::shared_ptr<const model::Tokenizer> tokenizer = model::make_byte_tokenizer();
  std::shared_ptr<Noted> texts = std::make_shared<Noted>();
  CompletionDesk desk{DeskSettings{}};
  std::function<void(const std::string& why_not)> aside;
  int status = 0;
  bool has_time = true;
};

const std::string kLong(50'000, 'a');

TEST_F(DeskTest, ALongPromptBecomesTokensAsideAndAShortOneAtOnce) {
  EXPECT_EQ(ask("short"), 200);
  EXPECT_FALSE(aside);
  EXPECT_EQ(ask(kLong), 0);
  EXPECT_EQ(texts->taken.size(), 1U);
  aside("");
  EXPECT_EQ(status, 200);
  ASSERT_EQ(texts->taken.size(), 2U);
  EXPECT_EQ(texts->taken[1].prompt.tokens.size(), kLong.size());
}

TEST_F(DeskTest, ALongPromptIsRefusedFirstWhereItWouldBeAndWhereTheModelIsAnother) {
  EXPECT_EQ(ask(kLong, 11), 429);
  EXPECT_FALSE(aside) << "nothing was done for it";
  EXPECT_EQ(ask(kLong + std::string(12'800'000, 'a')), 400);
  has_time = false;
  EXPECT_EQ(ask(kLong), 503);
  has_time = true;
  EXPECT_EQ(ask(kLong), 0);
  aside("no memory");
  EXPECT_EQ(status, 503);
  EXPECT_EQ(ask(kLong), 0);
  tokenizer = model::make_byte_tokenizer();
  aside("");
  EXPECT_EQ(status, 503);
  EXPECT_THAT(texts->taken, IsEmpty());
}

}  // namespace
}  // namespace holdfast::rendezvous
