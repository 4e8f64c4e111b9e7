// OpenAI's API over a small model, without a network: answers, streams, errors, clients that go away, and more than may wait.
#include "worker/serving/completions_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "rendezvous/text/sha256.h"
#include "tests/worker/serving/small_served.h"

namespace holdfast::worker {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// A reader that may go away.
class Reader : public rendezvous::EventStream {
 public:
  bool write(const std::string& chunk) override {
    const std::lock_guard lock(mutex_);
    if (gone_) return false;
    read_ += chunk;
    return true;
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  void abandon() override { close(); }
  size_t unread() const override { return 0; }
  bool await_reader(size_t) override { return true; }

  void go_away() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
  }
  std::string all() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(1), [&] { return closed_; }));
    return read_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string read_;
  bool closed_ = false, gone_ = false;
};

class CompletionsApiTest : public ::testing::Test {
 protected:
  CompletionsApiTest() { begin({}, 64); }
  void begin(CompletionsApi::Settings settings, int64_t queue) {
    api_.reset();
    models_.reset();
    models_ = std::make_unique<ServedModels>(served(model_, "f", queue));
    api_ = std::make_unique<CompletionsApi>(std::vector<const ServedModels*>{models_.get()}, *model_.tokenizer,
                                            std::move(settings));
  }
  static ServedModel served(const SmallServed& model, const std::string& fingerprint, int64_t queue) {
    return {.name = "m",
            .fingerprint = fingerprint,
            .config = kServed,
            .created_s = 7,
            .texts = std::make_unique<TextServer>(*model.decoder, queue)};
  }
  struct Said {
    int status;
    std::string type, text;
    std::map<std::string, std::string> headers;
    std::shared_ptr<Reader> reader;
    Json json() const { return Json::parse(text); }
  };
  Said ask(const std::string& method, const std::string& path, const std::string& body = "", const std::string& token = "") {
    rendezvous::HttpRequest request{.method = method, .path = path, .query = {}, .headers = {}, .body = "", .peer = "here"};
    if (!token.empty()) request.headers["authorization"] = "Bearer " + token;
    const auto admission = api_->gate(request);
    rendezvous::HttpResponse response;
    if (admission.refusal) {
      response = *admission.refusal;
    } else {
      request.body = body;
      admission.handler(request, [&](rendezvous::HttpResponse answered) { response = std::move(answered); });
    }
    Said said{response.status, response.content_type, response.body, response.headers, std::make_shared<Reader>()};
    if (response.on_stream) response.on_stream(said.reader);
    return said;
  }
  Said complete(const Json& fields) {
    Json request = {{"model", "m"}, {"prompt", "ab"}, {"seed", 3}};
    request.update(fields);
    Said said = ask("POST", "/v1/completions", request.dump());
    if (said.status == 200) said.text = said.reader->all();
    return said;
  }
  // After the last pass, once nothing is left to do.
  model::TextEngine::Load load_at_rest() const {
    for (;;) {
      model::TextEngine::Load load{};
      models_->count(load);
      if (load.writing + load.reading + load.waiting == 0) return load;
      std::this_thread::yield();
    }
  }
  static std::vector<Json> events(const std::string& text) {
    std::vector<Json> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("data: {")) all.push_back(Json::parse(line.substr(6)));
    }
    return all;
  }

  SmallServed model_;
  std::unique_ptr<ServedModels> models_;
  std::unique_ptr<CompletionsApi> api_;
};

TEST_F(CompletionsApiTest, AnswersWithTheSameTextWholeOrStreamed) {
  const Said whole = complete({{"max_tokens", 20}, {"n", 3}, {"logprobs", 2}});
  ASSERT_EQ(whole.status, 200) << whole.text;
  const Json answer = whole.json();
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["usage"], (Json{{"prompt_tokens", 2}, {"completion_tokens", 60}, {"total_tokens", 62}}));
  ASSERT_EQ(answer["choices"].size(), 3U);
  EXPECT_NE(answer["choices"][0]["text"], answer["choices"][1]["text"]);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["logprobs"]["tokens"].size(), 20U);
  EXPECT_EQ(answer["choices"][0]["logprobs"]["text_offset"][0], 0);

  const Said streamed =
      complete({{"max_tokens", 20}, {"n", 3}, {"stream", true}, {"stream_options", {{"include_usage", true}}}});
  EXPECT_EQ(streamed.type, "text/event-stream");
  EXPECT_TRUE(streamed.text.ends_with("data: [DONE]\n\n"));
  std::vector<std::string> texts(3);
  for (const Json& event : events(streamed.text)) {
    for (const Json& choice : event["choices"]) texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(texts[i], answer["choices"][i]["text"].get<std::string>());
  EXPECT_EQ(events(streamed.text).back()["usage"], answer["usage"]);
}

TEST_F(CompletionsApiTest, ATextDoesNotHangOnWhatElseIsAsked) {
  const Json alone = complete({{"max_tokens", 40}}).json()["choices"];
  std::vector<Said> beside;
  for (int i = 0; i < 20; ++i) {
    const Json other = {
        {"model", "m"}, {"prompt", std::string(static_cast<size_t>(i + 1), 'x')}, {"seed", i}, {"max_tokens", 30}};
    beside.push_back(ask("POST", "/v1/completions", other.dump()));
  }
  EXPECT_EQ(complete({{"max_tokens", 40}}).json()["choices"], alone);
  for (const Said& said : beside) said.reader->all();
}

TEST_F(CompletionsApiTest, TheSeedThatIsToldMayBeSentAgain) {
  const Json first = complete({{"seed", -5}}).json();
  EXPECT_EQ(first["seed"], -5);
  EXPECT_EQ(complete({{"seed", first["seed"]}}).json()["choices"], first["choices"]);
}

TEST_F(CompletionsApiTest, EndsAtAStopStringAndEchoesWhenAsked) {
  const std::string text = complete({{"max_tokens", 30}, {"temperature", 0}}).json()["choices"][0]["text"];
  ASSERT_GT(text.size(), 12U);
  size_t first = 4, behind = 0;  // of a whole character
  const auto goes_on = [&](size_t at) { return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  while (goes_on(first)) ++first;
  for (behind = first + 1; goes_on(behind);) ++behind;
  const std::string stop = text.substr(first, behind - first);
  const Json stopped = complete({{"max_tokens", 30}, {"temperature", 0}, {"stop", stop}}).json()["choices"][0];
  EXPECT_EQ(stopped["text"].get<std::string>(), text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped["finish_reason"], "stop");
  const Json echoed = complete({{"max_tokens", 0}, {"echo", true}, {"logprobs", 0}, {"prompt", "abc"}}).json()["choices"][0];
  EXPECT_EQ(echoed["text"], "abc");
  EXPECT_EQ(echoed["logprobs"]["tokens"], (Json{"a", "b", "c"}));
  EXPECT_TRUE(echoed["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_LT(echoed["logprobs"]["token_logprobs"][2], 0);
}

TEST_F(CompletionsApiTest, RefusesInOpenAisForm) {
  const Said other = complete({{"model", "gpt-4"}});
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.json()["error"]["code"], "model_not_found");
  EXPECT_THAT(other.json()["error"]["message"].get<std::string>(), HasSubstr("it is \"m\""));
  EXPECT_EQ(complete({{"logit_bias", {{"5", 1}}}}).json()["error"]["param"], "logit_bias");
  const Said longer = complete({{"prompt", std::string(97, 'x')}});
  EXPECT_EQ(longer.status, 400);
  EXPECT_THAT(longer.json()["error"]["message"].get<std::string>(),
              HasSubstr("97 tokens, expected at most the model's block_size 96"));
  EXPECT_EQ(ask("GET", "/v1/chat/completions").status, 404);
  EXPECT_EQ(ask("GET", "/v1/completions").status, 405);
  EXPECT_EQ(ask("GET", "/v1/models").json()["data"][0]["id"], "m");
  EXPECT_EQ(ask("GET", "/page/nothing.js").status, 404);
  EXPECT_THAT(ask("GET", "/").text, HasSubstr("page/playground.js"));
}

TEST_F(CompletionsApiTest, AsksForATokenWhereThereAreSome) {
  begin({.tokens = {rendezvous::sha256_hex(std::as_bytes(std::span("secret", 6)))}}, 64);
  EXPECT_EQ(ask("GET", "/v1/models").status, 401);
  EXPECT_EQ(ask("GET", "/v1/models", "", "wrong").status, 401);
  EXPECT_EQ(ask("GET", "/v1/models", "", "secret").status, 200);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_THAT(ask("GET", "/metrics", "", "secret").text, HasSubstr("holdfast_serve_requests_total{result=\"taken\"} 0"));
}

// Ten thousand that go away at once, and the pages are all free again.
TEST_F(CompletionsApiTest, GivesUpTextsOfClientsThatGoAway) {
  begin({}, 20'000);
  const Json request = {{"model", "m"}, {"prompt", "some prompt"}, {"max_tokens", 80}, {"stream", true}};
  for (int i = 0; i < 10'000; ++i) {
    const Said said = ask("POST", "/v1/completions", request.dump());
    ASSERT_EQ(said.status, 200) << said.text;
    said.reader->go_away();
  }
  EXPECT_EQ(complete({{"max_tokens", 5}}).status, 200) << "it comes after them";
  EXPECT_EQ(load_at_rest().pages_held, 0);
  EXPECT_LT(load_at_rest().written_tokens, 20'000) << "of 800,000 that were asked for";
  const std::string metrics = ask("GET", "/metrics").text;
  EXPECT_THAT(metrics, HasSubstr("holdfast_serve_texts{state=\"waiting\"} 0"));
  EXPECT_THAT(metrics, HasSubstr("holdfast_serve_requests_total{result=\"taken\"} 10001"));
}

// Requests that are nearly right: cut, doubled, with other numbers and with any bytes. Each is answered, and nothing is left of
// it.
TEST_F(CompletionsApiTest, AnswersWhateverComes) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto any = [&](size_t below) { return static_cast<size_t>(random()) % below; };
  const std::string right = Json{
      {"model", "m"},
      {"prompt", {"ab", "c"}},
      {"max_tokens", 3},
      {"n", 2},
      {"temperature", 0.5},
      {"top_p", 0.9},
      {"top_k", 5},
      {"stop", {"xy"}},
      {"logprobs", 2},
      {"echo", true},
      {"stream", true},
      {"stream_options", {{"include_usage", true}}},
      {"presence_penalty", 0.5},
      {"seed", 3}}.dump();
  const std::vector<std::string> pieces = {"-1",
                                           "1e999",
                                           "18446744073709551616",
                                           "null",
                                           "true",
                                           "[",
                                           "]",
                                           "{",
                                           "}",
                                           "\"",
                                           ",",
                                           "\\u0000",
                                           "\xff",
                                           "\xc3",
                                           "97",
                                           "0",
                                           ":",
                                           R"({"a":)",
                                           std::string(200'000, '[') + std::string(200'000, ']')};
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string body = right;
    for (size_t changes = 1 + any(3); changes > 0; --changes) {
      const size_t at = any(body.size()), count = std::min(any(12), body.size() - at);
      switch (any(4)) {
        case 0:
          body.erase(at, count);
          break;
        case 1:
          body.insert(at, body.substr(at, count));
          break;
        case 2:
          body.replace(at, count, pieces[any(pieces.size())]);
          break;
        default:
          body[at] = static_cast<char>(random());
      }
      if (body.empty()) body = right;
    }
    const Said said = ask("POST", "/v1/completions", body);
    ASSERT_TRUE(said.status == 200 || said.status == 400 || said.status == 404) << said.status << ": " << body.substr(0, 1000);
    if (said.status != 200) {
      ASSERT_FALSE(said.json()["error"]["message"].get<std::string>().empty()) << body;
      continue;
    }
    ++taken;
    if (any(2) == 0)
      said.reader->go_away();
    else
      said.reader->all();
  }
  EXPECT_GT(taken, 0);
  EXPECT_EQ(load_at_rest().pages_held, 0);
  EXPECT_EQ(complete({{"max_tokens", 5}}).status, 200);
}

TEST_F(CompletionsApiTest, SaysThatItIsBusy) {
  begin({}, 4);
  std::vector<Said> all;
  const Json request = {{"model", "m"}, {"prompt", "x"}, {"max_tokens", 90}, {"n", 4}};
  bool was_busy = false;
  for (int i = 0; i < 200 && !was_busy; ++i) {
    all.push_back(ask("POST", "/v1/completions", request.dump()));
    if (all.back().status == 200) continue;
    was_busy = true;
    EXPECT_EQ(all.back().status, 429);
    EXPECT_EQ(all.back().headers.at("Retry-After"), "1");
    EXPECT_THAT(all.back().json()["error"]["message"].get<std::string>(), HasSubstr("of at most 4: try again later"));
  }
  EXPECT_TRUE(was_busy);
  for (const Said& said : all) {
    if (said.status == 200) said.reader->all();
  }
}

TEST_F(CompletionsApiTest, ATextIsOneModelsToItsEnd) {
  const Json request = {{"model", "m"}, {"prompt", "ab"}, {"seed", 3}, {"max_tokens", 90}};
  const Json first = complete({{"max_tokens", 90}}).json();
  SmallServed next(9);
  std::vector<Said> under_way;
  for (int i = 0; i < 8; ++i) under_way.push_back(ask("POST", "/v1/completions", request.dump()));
  models_->replace(served(next, "g", 64));
  const Json second = complete({{"max_tokens", 90}}).json();
  EXPECT_EQ(second["system_fingerprint"], "g");
  EXPECT_NE(second["choices"][0]["text"], first["choices"][0]["text"]);
  for (const Said& said : under_way) {
    const Json answer = Json::parse(said.reader->all());
    EXPECT_EQ(answer["system_fingerprint"], "f");
    EXPECT_EQ(answer["choices"], first["choices"]);
  }
  const int64_t written = load_at_rest().written_tokens;
  while (models_->forget_finished() > 0) std::this_thread::yield();
  EXPECT_EQ(load_at_rest().written_tokens, written) << "what a model wrote is counted when it has gone, too";
  EXPECT_EQ(load_at_rest().pages, 24);
  EXPECT_EQ(complete({{"max_tokens", 90}}).json()["choices"], second["choices"]);
}

TEST_F(CompletionsApiTest, EndsWhatTakesTooLong) {
  begin({.texts = {.patience = std::chrono::milliseconds(0)}, .tokens = {}}, 64);
  EXPECT_EQ(complete({{"max_tokens", 80}}).json()["choices"][0]["finish_reason"], "timeout");
  EXPECT_EQ(load_at_rest().pages_held, 0);
}

}  // namespace
}  // namespace holdfast::worker
