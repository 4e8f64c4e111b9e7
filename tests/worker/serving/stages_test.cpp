// A model divided among programs: its stages over HTTP, texts through them, and what stages refuse.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "model/decode/text_engine.h"
#include "rendezvous/client/http_client.h"
#include "rendezvous/text/sha256.h"
#include "tests/worker/serving/small_served.h"
#include "worker/peer_server/own_certificate.h"
#include "worker/serving/stages/pass_bytes.h"
#include "worker/serving/stages/remote_stages.h"
#include "worker/serving/stages/stage_api.h"
#include "worker/serving/stages/stage_server.h"
#include "worker/serving/text_server.h"

namespace holdfast::worker {
namespace {

using model::Decoder;
using model::LayerRange;
using testing::HasSubstr;

constexpr model::Gpt2Config kDeep = {.n_layer = 5, .n_embd = 16, .n_head = 2, .vocab_size = 256, .block_size = 96};
constexpr Decoder::Limits kLimits = {.pages = 24, .rows = 32, .answers = 32};
const std::string kFingerprint = "f-float32";

// All layers, or some, of one model, which every object of it has again.
struct Part {
  explicit Part(LayerRange layers, model::EarlierLayers* earlier = nullptr)
      : decoder(std::move(*Decoder::make_part(
            kDeep, *ops, model::KnownValues(model::perturbed_parameters(trained.gpt2, *trained.ops, 4), kDeep), kLimits,
            kernels::WeightForm::kActivations, layers, earlier))) {}
  std::unique_ptr<kernels::DeviceOps> ops = kernels::make_cpu_ops(kernels::DType::kBFloat16, 1);
  model::SmallModel trained{kernels::make_cpu_ops(kernels::DType::kBFloat16, 1), 1, kDeep};
  std::unique_ptr<Decoder> decoder;
};

struct Stage {
  explicit Stage(LayerRange layers, std::string fingerprint = kFingerprint, std::set<std::string> tokens = {})
      : part(layers),
        api(*part.decoder, {std::move(fingerprint), layers, kLimits.rows, kLimits.pages}, std::move(tokens)),
        server(std::move(*rendezvous::HttpServer::start(
            [] {
              rendezvous::HttpServerOptions options;
              options.listen = "127.0.0.1:0";
              return options;
            }(),
            [this](const rendezvous::HttpRequest& head) { return api.gate(head); }))) {}
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server->port()); }
  Part part;
  StageApi api;
  std::unique_ptr<rendezvous::HttpServer> server;  // last: it uses the others
};

RemoteStages::Needs needs() {
  return {kFingerprint, kDeep, kLimits, static_cast<size_t>(kDeep.n_embd) * 2};
}

auto connected(const std::vector<std::string>& urls, const std::string& token = "") {
  std::vector<rendezvous::StageAddress> stages;
  for (const std::string& url : urls) stages.push_back({.url = url, .key = token});
  return RemoteStages::connect(stages, needs());
}

std::string refused(const std::vector<std::string>& urls, const std::string& token = "") {
  const auto stages = connected(urls, token);
  return stages ? "" : stages.error().why;
}

std::vector<std::vector<int32_t>> texts_by(Decoder& decoder) {
  model::TextEngine engine(decoder);
  std::map<int64_t, std::vector<int32_t>> texts;
  for (int32_t i = 0; i < 6; ++i) {
    model::Prompt prompt{.options = {.max_tokens = 20, .temperature = 1, .seed = static_cast<uint64_t>(i)}};
    for (int32_t token = 0; token <= 9 * i; ++token) prompt.tokens.push_back((i * 31 + token * 7) % 256);
    texts[*engine.add(std::move(prompt))] = {};
  }
  while (!engine.is_idle()) {
    for (const model::TextProgress& progress : engine.step()) {
      for (const model::WrittenToken& token : progress.tokens) texts[progress.text].push_back(token.token.id);
    }
  }
  std::vector<std::vector<int32_t>> all;
  for (auto& [number, ids] : texts) all.push_back(std::move(ids));
  return all;
}

TEST(Stages, WriteTheTextsThatOneProgramWrites) {
  const Part whole({0, kDeep.n_layer});
  const auto expected = texts_by(*whole.decoder);
  const Stage first({0, 2}), second({2, 3});
  const auto stages = connected({first.url(), second.url()});
  ASSERT_TRUE(stages) << stages.error().why;
  EXPECT_EQ((*stages)->end_layer(), 3);
  const Part last({3, kDeep.n_layer}, stages->get());
  EXPECT_EQ(texts_by(*last.decoder), expected);
}

TEST(Stages, OfAWorkerTakePassesOverHttpsFromWhoeverKnowsTheirKey) {
  const Part whole({0, kDeep.n_layer}), first({0, 2});
  const auto stage =
      StageServer::start(*first.decoder, {kFingerprint, {0, 2}, kLimits.rows, kLimits.pages}, "127.0.0.1", PortRange{});
  ASSERT_TRUE(stage) << stage.error();
  rendezvous::StageAddress address = (*stage)->address();
  ChangingStages stages;
  const Part last({2, kDeep.n_layer}, &stages);
  EXPECT_THAT([&] { texts_by(*last.decoder); }, testing::ThrowsMessage<StageLost>(HasSubstr("are not there")));
  stages.set(std::move(*RemoteStages::connect({address}, needs())));
  EXPECT_EQ(texts_by(*last.decoder), texts_by(*whole.decoder));
  const std::string pin = std::exchange(address.pin, make_own_certificate().pin);
  EXPECT_FALSE(RemoteStages::connect({address}, needs())) << "somebody else is there";
  address.pin = pin;
  address.key += "x";
  EXPECT_THAT(RemoteStages::connect({address}, needs()).error().why, HasSubstr("send `Authorization: Bearer TOKEN`"));
}

TEST(Stages, APassEndsWhenItIsToldToStop) {
  const Stage first({0, 2});
  std::atomic<bool> stop = false;
  const auto stages = RemoteStages::connect({{.url = first.url()}}, needs(), &stop);
  ASSERT_TRUE(stages) << stages.error().why;
  stop = true;
  const Part last({2, kDeep.n_layer}, stages->get());
  EXPECT_THAT([&] { texts_by(*last.decoder); }, testing::ThrowsMessage<StageLost>(HasSubstr("cancelled")));
}

TEST(Stages, OneThatIsLostIsToldOf) {
  auto first = std::make_unique<Stage>(LayerRange{0, 2});
  const auto stages = connected({first->url()});
  const Part last({2, kDeep.n_layer}, stages->get());
  first.reset();
  EXPECT_THAT([&] { texts_by(*last.decoder); }, testing::ThrowsMessage<StageLost>(HasSubstr("a stage is lost: ")));
}

TEST(Stages, AreRefusedWhereTheyDoNotFit) {
  const Stage first({0, 2}), other({0, 2}, "another"), middle({2, 4}),
      secret({0, 2}, kFingerprint, {rendezvous::sha256_hex(std::as_bytes(std::span("word", 4)))});
  EXPECT_EQ(refused({first.url(), middle.url()}), "");
  EXPECT_THAT(refused({other.url()}), HasSubstr("it has the model \"another\", expected \"f-float32\""));
  EXPECT_THAT(refused({middle.url()}), HasSubstr("its first layer is 2, expected 0"));
  EXPECT_THAT(refused({first.url(), first.url()}), HasSubstr("its first layer is 0, expected 2"));
  EXPECT_THAT(refused({secret.url()}), HasSubstr("send `Authorization: Bearer TOKEN`"));
  EXPECT_EQ(refused({secret.url()}, "word"), "");
  EXPECT_THAT(refused({"http://127.0.0.1:1"}), HasSubstr("stage http://127.0.0.1:1: "));
}

TEST(Stages, ObeyTheDriverThatBeganLast) {
  const Stage first({0, 2});
  const auto older = connected({first.url()}), newer = connected({first.url()});
  const std::vector<int32_t> tokens = {1, 2, 3}, pages = {0};
  const model::Feed feed{tokens, 0, pages, 0};
  (*older)->feed({&feed, 1});
  (*newer)->feed({&feed, 1});
  EXPECT_THAT(
      [&] {
        (*older)->feed({&feed, 1});
      },
      testing::ThrowsMessage<StageLost>(HasSubstr("another server drives this stage")));
  EXPECT_NO_THROW((*newer)->feed({&feed, 1}));
}

TEST(Stages, AnswerAPassThatComesAgainAndComputeItOnce) {
  const Part whole({0, 2});
  const Stage stage({0, 2});
  rendezvous::HttpClient driver(stage.url(), "");
  driver.set_header("Holdfast-Driver", "d");
  const auto answer = [&](int64_t number, const model::Feed& feed) {
    driver.set_header("Holdfast-Pass", std::to_string(number));
    const auto reply = driver.request("POST", "/v1/stage/pass", bytes_of({&feed, 1}, {}), "application/octet-stream");
    return reply ? reply->body : "refused: " + reply.error().message();
  };
  const std::vector<int32_t> tokens(31, 7), one = {9}, pages = {3, 5};
  EXPECT_THAT(answer(0, {tokens, 0, pages, 0}), HasSubstr("refused: ")) << "they are counted from 1";
  for (int64_t number = 1; number <= 3; ++number) {  // the second one fills a page, and the third reads it
    const model::Feed feed = number == 1 ? model::Feed{tokens, 0, pages, 0} : model::Feed{one, 29 + number, pages, 0};
    const std::string expected = bytes_of(whole.decoder->feed_through({&feed, 1}, {}));
    for (int time = 0; time < 3; ++time) EXPECT_TRUE(answer(number, feed) == expected) << number;
  }
}

TEST(Stages, TextsThatAModelFailsAreToldOfAndNoMoreAreTaken) {
  ChangingStages nobody;
  const Part last({2, kDeep.n_layer}, &nobody);
  std::atomic<bool> failed = false;
  TextServer server(*last.decoder, 64, [&](const std::exception&) { failed = true; });
  std::atomic<int> taken = 0, lost = 0;
  while (!failed || taken == 0) {
    const auto refused = server.submit({{{.tokens = {1, 2}, .options = {.max_tokens = 4}},
                                         [&](const auto&, rendezvous::TextOutcome outcome) {
                                           lost += outcome == rendezvous::TextOutcome::kLost ? 1 : 0;
                                           return true;
                                         }}},
                                       std::chrono::minutes(1));
    if (!refused) ++taken;
  }
  EXPECT_EQ(lost, taken);
  EXPECT_THAT(server.submit({}, std::chrono::minutes(1))->why, HasSubstr("the model failed"));
}

TEST(Passes, ThatADecoderMayNotBeGivenAreRefused) {
  const Part part({2, 4});
  std::vector<int32_t> tokens = {1, 2, 3}, pages = {0, 1};
  const std::vector<float> residual(static_cast<size_t>(3 * kDeep.n_embd), 0.5F);
  const std::vector<std::byte> branch(residual.size() * 2);
  const model::BetweenLayers from{residual, branch};
  const auto refusal = [&](int64_t position, const std::optional<model::BetweenLayers>& rows) {
    const model::Feed feed{tokens, position, pages, 0};
    const auto pass = read_pass(bytes_of({&feed, 1}, rows), *part.decoder, false);
    return pass ? "" : pass.error();
  };
  EXPECT_EQ(refusal(0, from), "");
  EXPECT_THAT(refusal(94, from), HasSubstr("3 positions from 94 on, expected them below 96"));
  EXPECT_THAT(refusal(INT64_MAX, from), HasSubstr("expected them below 96"));
  EXPECT_THAT(refusal(62, from), HasSubstr("2 pages for 65 positions"));
  EXPECT_THAT(refusal(-1, from), HasSubstr("3 positions from -1 on"));
  EXPECT_THAT(refusal(0, {}), HasSubstr("its length is not that of its rows"));
  tokens[1] = 256;
  EXPECT_THAT(refusal(0, from), HasSubstr("a token that is not below 256"));
  tokens[1] = 2;
  pages[1] = 24;
  EXPECT_THAT(refusal(0, from), HasSubstr("a page that is not below 24"));
  pages[1] = 1;
  tokens.assign(33, 1);
  EXPECT_THAT(refusal(0, from), HasSubstr("33 rows, expected at most 32"));
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(8, '\0'), std::string(200, '\xff')})
    EXPECT_FALSE(read_pass(bytes, *part.decoder, false)) << bytes.size();
}

}  // namespace
}  // namespace holdfast::worker
