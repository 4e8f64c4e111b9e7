// Requests as OpenAI's clients send them: read whole, or refused by the name of what is wrong.
#include "rendezvous/completions/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/completions/stop_strings.h"

namespace holdfast::rendezvous {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(CompletionRequest, HasOpenAisDefaults) {
  const auto request =
      read_completion_request(R"({"model": "m", "prompt": "Once", "user": "u", "suffix": null, "seed": null})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->options.max_tokens, 16);
  EXPECT_EQ(request->options.temperature, 1);
  EXPECT_EQ(request->n, 1);
  EXPECT_FALSE(request->stream || request->echo || request->logprobs || request->seed);
  EXPECT_EQ(std::get<std::string>(request->prompts.at(0)), "Once");
}

TEST(CompletionRequest, TakesPromptsInAllForms) {
  const auto prompts = [](const Json& prompt) {
    return read_completion_request(Json{{"model", "m"}, {"prompt", prompt}}.dump())->prompts;
  };
  EXPECT_EQ(prompts({"a", "b"}).size(), 2U);
  EXPECT_EQ(std::get<std::vector<int32_t>>(prompts({1, 2, 3}).at(0)), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(std::get<std::vector<int32_t>>(prompts({{1, 2}, {3}}).at(1)), std::vector<int32_t>{3});
  EXPECT_EQ(std::get<std::string>(prompts("").at(0)), "");
}

TEST(CompletionRequest, TakesAnySeedOf64Bits) {
  const auto seed = [](const char* text) {
    return read_completion_request(std::string(R"({"model": "m", "prompt": "x", "seed": )") + text + "}");
  };
  EXPECT_EQ(seed("9223372036854775807")->seed, (uint64_t{1} << 63) - 1);
  EXPECT_EQ(seed("-9223372036854775808")->seed, uint64_t{1} << 63);
  EXPECT_EQ(seed("-1")->seed, UINT64_MAX);
  EXPECT_THAT(seed("9223372036854775808").error().message,
              HasSubstr("seed: 9223372036854775808, expected a whole number from -9223372036854775808 to 9223372036854775807"));
}

TEST(CompletionRequest, RefusesWhatIsNestedWithoutEnd) {
  for (const char* field : {"prompt", "stop", "user", "stream_options", "no_such_field"}) {
    const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
    const auto request = read_completion_request(R"({"model": "m", ")" + std::string(field) + "\": " + deep + "}");
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().message, "the body is nested deeper than 64 levels, which nothing here needs");
  }
}

TEST(CompletionRequest, NamesWhatIsWrong) {
  struct Case {
    const char *fields, *param, *says;
  };
  for (const Case& c :
       {Case{R"("temperature": -1)", "temperature", "-1, expected a number from 0"},
        Case{R"("temperature": "hot")", "temperature", "\"hot\", expected a number"},
        Case{R"("top_p": 0)", "top_p", "0, expected a number"},
        Case{R"("max_tokens": 1.5)", "max_tokens", "1.5, expected a whole number"},
        Case{R"("max_tokens": 99999999999999999999)", "max_tokens", "expected a whole number"},
        Case{R"("max_tokens": 0)", "max_tokens", "at least 1"}, Case{R"("n": 0)", "n", "0, expected a whole number from 1"},
        Case{R"("best_of": 3)", "best_of", "3, expected n (1)"},
        Case{R"("logit_bias": {"5": 1})", "logit_bias", "does not do that"},
        Case{R"("suffix": "x")", "suffix", "does not do that"},
        Case{R"("temprature": 1)", "temprature", "did you mean temperature?"},
        Case{R"("stop": [""])", "stop", "expected a text or up to 4"},
        Case{R"("stop": ["a", "b", "c", "d", "e"])", "stop", "up to 4"},
        Case{R"("stream_options": {"include_usage": true})", "stream_options", "only for requests with"},
        Case{R"("stream": true, "stream_options": {"usage": true})", "stream_options.usage", "no such field"},
        Case{R"("logprobs": 21)", "logprobs", "from 0 to 20"}}) {
    const auto request = read_completion_request(std::string(R"({"model": "m", "prompt": "x", )") + c.fields + "}");
    ASSERT_FALSE(request) << c.fields;
    EXPECT_EQ(request.error().param, c.param) << c.fields;
    EXPECT_THAT(request.error().message, HasSubstr(c.says)) << c.fields;
    EXPECT_EQ(request.error().status, 400);
    EXPECT_EQ(json_of(request.error())["error"]["param"], c.param);
  }
  EXPECT_THAT(read_completion_request("{").error().message, HasSubstr("no JSON"));
  EXPECT_THAT(read_completion_request("[]").error().message, HasSubstr("array, expected a JSON object"));
  EXPECT_THAT(read_completion_request(R"({"prompt": "x"})").error().message, HasSubstr("model: missing"));
  EXPECT_THAT(read_completion_request(R"({"model": "m"})").error().message, HasSubstr("prompt: missing"));
  for (const char* prompt : {"5", "[]", "[1, -1]", "[[1], \"a\", {}]", "true"}) {
    EXPECT_EQ(read_completion_request(std::string(R"({"model": "m", "prompt": )") + prompt + "}").error().param, "prompt")
        << prompt;
  }
}

// Whatever the pieces are: what is shown is the text up to the first stop string.
TEST(StopStrings, ShowTheTextUpToTheFirstOfThem) {
  const std::string text = "one two END three";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    StopStrings stops({"END", "two ENDS"});
    std::string shown;
    for (size_t at = 0; at < text.size(); at += piece) shown += stops.add(text.substr(at, piece));
    shown += stops.finish();
    EXPECT_EQ(shown, "one two ") << piece;
    EXPECT_TRUE(stops.has_stopped());
  }
}

TEST(StopStrings, HoldBackOnlyTheirBeginnings) {
  StopStrings stops({"\n\nQ:"});
  EXPECT_EQ(stops.add("a\n"), "a");
  EXPECT_EQ(stops.add("b"), "\nb");
  EXPECT_EQ(stops.add("\n\nQ"), "");
  EXPECT_EQ(stops.finish(), "\n\nQ");
  EXPECT_FALSE(stops.has_stopped());
}

}  // namespace
}  // namespace holdfast::rendezvous
