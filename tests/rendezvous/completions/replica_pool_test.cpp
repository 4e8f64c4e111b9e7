// Texts by replicas that come, die, are taken away and lose messages: each is the text that one engine writes by itself.
#include "rendezvous/completions/replica_pool.h"

#include <gmock/gmock.h>

#include <bit>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/worker/serving/small_served.h"

namespace holdfast::rendezvous {
namespace {

using model::Prompt;
using model::WrittenToken;
using testing::HasSubstr;
using worker::kServed;
using worker::SmallServed;

const std::string kSource = "job:j1@60", kNewer = "job:j1@80";

struct Written {
  std::vector<WrittenToken> tokens;
  TextOutcome end = TextOutcome::kGoesOn;
};

// The bits of all that is told of a text.
std::vector<uint64_t> bits_of(const std::vector<WrittenToken>& tokens) {
  std::vector<uint64_t> bits;
  const auto add = [&](const model::TokenChance& chance, bool of_prompt) {
    bits.push_back(uint64_t{static_cast<uint32_t>(chance.id)} << 33 |
                   uint64_t{std::bit_cast<uint32_t>(chance.log_probability)} << 1 | uint64_t{of_prompt});
  };
  for (const WrittenToken& token : tokens) {
    add(token.token, token.of_prompt);
    for (const model::TokenChance& other : token.alternatives) add(other, token.of_prompt);
  }
  return bits;
}

TextOutcome outcome_of(model::TextEnd end) {
  return end == model::TextEnd::kNotYet ? TextOutcome::kGoesOn
         : end == model::TextEnd::kStop ? TextOutcome::kStop
                                        : TextOutcome::kLength;
}

// The model's seeds: whoever is given a source has the same parameters for it.
uint64_t seed_of(const std::string& source) {
  return source == kSource ? 4 : 5;
}

Written alone(const std::string& source, const Prompt& prompt) {
  SmallServed model(seed_of(source));
  model::TextEngine engine(*model.decoder);
  EXPECT_TRUE(engine.add(prompt));
  Written written;
  while (written.end == TextOutcome::kGoesOn) {
    for (const model::TextProgress& progress : engine.step()) {
      written.tokens.insert(written.tokens.end(), progress.tokens.begin(), progress.tokens.end());
      written.end = outcome_of(progress.end);
    }
  }
  return written;
}

// Plays a replica's process: its engines, what it has heard, and its news that are not delivered yet. All messages are JSON.
class PlayedReplica {
 public:
  PlayedReplica(std::string name, int life, const std::vector<std::string>& sources)
      : name_(std::move(name)), incarnation_(name_ + "-" + std::to_string(life)) {
    for (const std::string& source : sources) {
      Model& model = models_[source];
      model.served = std::make_unique<SmallServed>(seed_of(source));
      model.engine = std::make_unique<model::TextEngine>(*model.served->decoder);
    }
  }

  ReplicaReport report() const {
    ReplicaReport report{.incarnation = incarnation_, .job = "j2", .have = have_, .wait_ms = 1000, .texts_max = 3};
    for (const auto& [source, model] : models_)
      report.held.push_back({source, "f-" + source, kServed.block_size, kServed.vocab_size});
    return nlohmann::json(report).get<ReplicaReport>();
  }
  void poll(ReplicaPool& pool, bool is_lost) {
    pool.hear(name_, report());
    const auto orders = nlohmann::json(ReplicaOrders{.orders = pool.orders_for(name_, have_)}).get<ReplicaOrders>();
    if (is_lost) return;
    for (const ReplicaOrder& order : orders.orders) {
      if (order.number <= have_) continue;
      have_ = order.number;
      if (order.source.empty()) {
        give_up(order.text);
      } else {
        const auto number = models_.at(order.source).engine->add(order.prompt);
        ASSERT_TRUE(number) << number.error();
        texts_[order.text] = {order.source, *number};
      }
    }
  }
  void step() {
    for (auto& [source, model] : models_) {
      for (const model::TextProgress& progress : model.engine->step()) {
        for (auto at = texts_.begin(); at != texts_.end(); ++at) {
          if (at->second.source != source || at->second.number != progress.text) continue;
          const TextOutcome outcome = outcome_of(progress.end);
          news_.push_back({.text = at->first,
                           .first = at->second.told,
                           .tokens = progress.tokens,
                           .end = outcome == TextOutcome::kGoesOn ? ""
                                  : outcome == TextOutcome::kStop ? "stop"
                                                                  : "length"});
          at->second.told += static_cast<int64_t>(progress.tokens.size());
          if (outcome != TextOutcome::kGoesOn) texts_.erase(at);
          break;
        }
      }
    }
  }
  // In order; a message whose answer is lost comes again.
  void send(ReplicaPool& pool, bool is_answered) {
    if (news_.empty()) return;
    const auto said = nlohmann::json(ReplicaReport{.incarnation = incarnation_, .job = "j2", .news = {news_.front()}});
    pool.take(name_, incarnation_, said.get<ReplicaReport>().news.front());
    if (is_answered) news_.pop_front();
  }
  size_t unsent() const { return news_.size(); }
  const std::string& name() const { return name_; }
  int64_t texts() const { return static_cast<int64_t>(texts_.size()); }

 private:
  struct Model {
    std::unique_ptr<SmallServed> served;
    std::unique_ptr<model::TextEngine> engine;
  };
  struct Text {
    std::string source;
    int64_t number = 0, told = 0;
  };
  void give_up(int64_t text) {
    const auto found = texts_.find(text);
    if (found == texts_.end()) return;
    models_.at(found->second.source).engine->cancel(found->second.number);
    texts_.erase(found);
  }

  std::string name_, incarnation_;
  std::map<std::string, Model> models_;
  int64_t have_ = 0;
  std::map<int64_t, Text> texts_;
  std::deque<TextNews> news_;
};

Prompt random_prompt(std::mt19937_64& random) {
  Prompt prompt{.options = {.max_tokens = static_cast<int64_t>(1 + random() % 12), .seed = random(), .stop_ids = {7}}};
  const size_t length = 1 + random() % 40;
  for (size_t i = 0; i < length; ++i) prompt.tokens.push_back(static_cast<int32_t>(random() % 256));
  prompt.options.temperature = random() % 2 == 0 ? 0 : 1.5;
  prompt.options.choice = random() % 3;
  prompt.options.frequency_penalty = random() % 2 == 0 ? 0 : 0.7;
  prompt.alternatives = static_cast<int64_t>(random() % 3);
  prompt.prompt_losses = random() % 4 == 0;
  return prompt;
}

TextOrder noting(Prompt prompt, Written& to) {
  return {std::move(prompt), [&to](const std::vector<WrittenToken>& tokens, TextOutcome outcome) {
            EXPECT_EQ(to.end, TextOutcome::kGoesOn) << "nothing is told after the end";
            to.tokens.insert(to.tokens.end(), tokens.begin(), tokens.end());
            to.end = outcome;
            return true;
          }};
}

class ReplicasThatFail : public testing::TestWithParam<uint64_t> {};

TEST_P(ReplicasThatFail, WriteTheTextsThatOneEngineWrites) {
  std::mt19937_64 random(GetParam());
  const auto one_in = [&](uint64_t n) { return random() % n == 0; };
  ReplicaPool pool;
  std::vector<std::unique_ptr<PlayedReplica>> replicas;
  int lives = 0;
  const auto arrives = [&](const std::string& name) {
    std::vector<std::string> sources = {kSource};
    if (one_in(2)) sources.push_back(kNewer);
    replicas.push_back(std::make_unique<PlayedReplica>(name, ++lives, sources));
    replicas.back()->poll(pool, false);
  };
  const auto leaves = [&](size_t index) {
    pool.forget(replicas[index]->name());
    replicas.erase(replicas.begin() + static_cast<int64_t>(index));
  };
  arrives("w1");
  arrives("w2");
  struct Asked {
    std::string source;
    Prompt prompt;
    Written written;
  };
  std::deque<Asked> asked;
  const size_t wanted = 60;
  for (int turn = 0; turn < 100'000; ++turn) {
    if (asked.size() < wanted && one_in(3)) {
      Asked& text = asked.emplace_back(Asked{one_in(3) ? kNewer : kSource, random_prompt(random), {}});
      std::vector<TextOrder> orders;
      orders.push_back(noting(text.prompt, text.written));
      const HeldModel model{text.source, "f-" + text.source, kServed.block_size, kServed.vocab_size};
      if (pool.submit(model, std::move(orders), 1'000'000)) asked.pop_back();  // nobody has the model just now
    }
    if (replicas.size() < 3 && one_in(20)) arrives("w" + std::to_string(3 + lives % 4));
    if (replicas.size() > 1 && one_in(60)) leaves(random() % replicas.size());
    if (replicas.size() > 1 && one_in(80)) pool.retire(replicas[random() % replicas.size()]->name());
    for (auto& replica : replicas) {
      if (one_in(2)) replica->poll(pool, one_in(4));
      if (one_in(2)) replica->step();
      if (one_in(2)) replica->send(pool, !one_in(4));
    }
    pool.tend(turn);
    const bool all_ended =
        std::ranges::all_of(asked, [](const Asked& text) { return text.written.end != TextOutcome::kGoesOn; });
    if (asked.size() == wanted && all_ended) break;
    if (replicas.size() > 2 && one_in(40)) leaves(0);  // the retired ones, too, in the end
  }
  for (const Asked& text : asked) {
    const Written right = alone(text.source, text.prompt);
    ASSERT_EQ(text.written.end, right.end);
    EXPECT_EQ(bits_of(text.written.tokens), bits_of(right.tokens));
  }
  EXPECT_GT(pool.load().moved, 0) << "no text went from one replica to another";
  EXPECT_EQ(pool.load().writing + pool.load().waiting, 0);
  for (int turn = 0; turn < 100; ++turn) {
    for (auto& replica : replicas) replica->poll(pool, false), replica->step(), replica->send(pool, true);
  }
  for (auto& replica : replicas) EXPECT_EQ(replica->texts(), 0) << replica->name() << " writes what nobody waits for";
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReplicasThatFail, testing::Range<uint64_t>(1, 7));

struct PoolTest : testing::Test {
  void hear(const std::string& worker, const std::vector<std::string>& sources, std::vector<UnreadableModel> unreadable = {}) {
    ReplicaReport report{
        .incarnation = worker + "-1", .job = "j2", .wait_ms = 1, .texts_max = 2, .unreadable = std::move(unreadable)};
    for (const std::string& source : sources) report.held.push_back(model_of(source));
    pool.hear(worker, report);
  }
  static HeldModel model_of(const std::string& source, const std::string& fingerprint = "f") {
    return {source, fingerprint, kServed.block_size, kServed.vocab_size};
  }
  std::optional<TextRefused> ask(const std::string& source, int64_t count = 1) {
    std::vector<TextOrder> orders;
    for (int64_t i = 0; i < count; ++i)
      orders.push_back(noting({.tokens = {1}, .options = {.max_tokens = 4}}, written.emplace_back()));
    return pool.submit(model_of(source), std::move(orders), 1000);
  }
  static TextNews news(int64_t text, int64_t first, std::vector<int32_t> ids, std::string end = "") {
    TextNews news{.text = text, .first = first, .end = std::move(end)};
    for (const int32_t id : ids) news.tokens.push_back({.token = {id, -1}});
    return news;
  }
  ReplicaPool pool;
  std::deque<Written> written;
};

// A replica that was silent for too long, and that the service takes back.
TEST_F(PoolTest, GivesTextsToAReplicaThatWasForgottenAndComesBackAsItWas) {
  hear("w1", {kSource});
  ask(kSource, 2);
  pool.tend(1);
  const int64_t have = pool.orders_for("w1", 0).back().number;
  pool.forget("w1");
  hear("w1", {kSource});
  pool.tend(2);
  const std::vector<ReplicaOrder> again = pool.orders_for("w1", have);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_GT(again.front().number, have);
}

TEST_F(PoolTest, AnOrderComesAgainUntilItIsAcknowledgedAndGoesOnElsewhereFromWhatWasTold) {
  hear("w1", {kSource});
  hear("w2", {kSource});
  EXPECT_FALSE(ask(kSource));
  pool.tend(0);
  EXPECT_EQ(pool.take_touched(), std::set<std::string>{"w1"});
  const auto orders = pool.orders_for("w1", 0);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(pool.orders_for("w1", 0).size(), 1u) << "its answer may have been lost";
  EXPECT_EQ(pool.orders_for("w1", orders[0].number).size(), 0u);
  pool.take("w1", "w1-1", news(orders[0].text, 0, {5, 6}));
  pool.take("w1", "w1-1", news(orders[0].text, 1, {6}));  // said again
  pool.take("w1", "w1-1", news(orders[0].text, 3, {9}));  // tokens between are on their way again
  pool.take("w1", "an older life", news(orders[0].text, 2, {9}));
  pool.forget("w1");
  pool.tend(1);
  const auto again = pool.orders_for("w2", 0);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].prompt.written, (std::vector<int32_t>{5, 6}));
  pool.take("w2", "w2-1", news(again[0].text, 0, {7, 8}, "length"));
  ASSERT_EQ(written[0].tokens.size(), 4u);
  EXPECT_EQ(written[0].end, TextOutcome::kLength);
}

TEST_F(PoolTest, OneThatIsTakenAwayKeepsOnlyWhatNobodyElseCanWrite) {
  hear("w1", {kSource, kNewer});
  EXPECT_FALSE(ask(kSource));
  EXPECT_FALSE(ask(kNewer));
  pool.tend(0);
  hear("w2", {kSource});
  pool.retire("w1");
  pool.tend(1);
  EXPECT_EQ(pool.texts_of("w1"), 1);
  EXPECT_EQ(pool.texts_of("w2"), 1);
  EXPECT_EQ(pool.sources_in_use(), (std::set<std::string>{kSource, kNewer}));
}

TEST_F(PoolTest, RefusesWhatNobodyCanWriteAndMoreThanMayWait) {
  EXPECT_THAT(ask(kSource)->why, HasSubstr("no replica has the model ready"));
  hear("w1", {kSource});
  std::vector<TextOrder> orders;
  orders.push_back(noting({.tokens = {256}, .options = {.max_tokens = 1}}, written.emplace_back()));
  const auto refused = pool.submit(model_of(kSource), std::move(orders), 1000);
  EXPECT_FALSE(refused->is_busy);
  EXPECT_THAT(refused->why, HasSubstr("token 256 is not below the model's vocab_size 256"));
  EXPECT_FALSE(ask(kSource, 2 + ReplicaPool::kWaitingMax));
  pool.tend(0);
  EXPECT_EQ(pool.load().writing, 2);
  EXPECT_THAT(ask(kSource)->why, HasSubstr("1024 texts wait already"));
}

TEST_F(PoolTest, EndsTextsWhoseTimeIsOverAndThoseWhoseModelNobodyCanRead) {
  hear("w1", {kSource});
  EXPECT_FALSE(ask(kSource));
  pool.tend(1001);
  EXPECT_EQ(written[0].end, TextOutcome::kTimedOut);
  EXPECT_FALSE(ask(kSource));
  pool.tend(0);
  pool.forget("w1");
  pool.tend(0);
  EXPECT_EQ(written[1].end, TextOutcome::kGoesOn) << "another may come";
  hear("w2", {kNewer}, {{kSource, "the checkpoint is gone"}});
  pool.tend(0);
  EXPECT_EQ(written[1].end, TextOutcome::kLost);
  EXPECT_THAT(pool.unreadable()[0].why, HasSubstr("w2: the checkpoint is gone"));
}

// A client that goes away before its text has begun, or while its prompt is read, leaves the place to others.
TEST_F(PoolTest, AsksOnceASecondWhetherATextIsWanted) {
  hear("w1", {kSource});
  int asked = 0;
  bool is_wanted = true;
  std::vector<TextOrder> orders;
  for (int i = 0; i < 3; ++i) {  // of which a replica takes two
    orders.push_back({{.tokens = {1}, .options = {.max_tokens = 4}}, [&](const std::vector<WrittenToken>& tokens, TextOutcome) {
                        EXPECT_TRUE(tokens.empty());
                        ++asked;
                        return is_wanted;
                      }});
  }
  EXPECT_FALSE(pool.submit(model_of(kSource), std::move(orders), 100'000));
  for (ReplicaPool::Millis now = 0; now < 3000; now += 50) pool.tend(now);
  EXPECT_EQ(asked, 3 * 3);
  const auto given = pool.orders_for("w1", 0);
  is_wanted = false;
  pool.tend(3000);
  EXPECT_EQ(pool.load().writing + pool.load().waiting, 0);
  const auto taken_back = pool.orders_for("w1", given.back().number);
  ASSERT_EQ(taken_back.size(), 2U);
  EXPECT_EQ(taken_back[0].source + taken_back[1].source, "") << "the replica gives them up";
}

TEST_F(PoolTest, ANewerModelAnswersOnceHalfOfTheReplicasHaveIt) {
  hear("w1", {kSource});
  hear("w2", {kSource});
  hear("w3", {kSource, kNewer});
  EXPECT_EQ(pool.answering(kNewer)->source, kSource);
  hear("w2", {kSource, kNewer});
  EXPECT_EQ(pool.answering(kNewer)->source, kNewer);
  EXPECT_EQ(pool.answering("job:j1@99")->source, kSource) << "what most have";
}

TEST_F(PoolTest, ATextThatIsGivenBackGoesToAnother) {
  hear("w1", {kSource});
  EXPECT_FALSE(ask(kSource));
  pool.tend(0);
  pool.take("w1", "w1-1", news(pool.orders_for("w1", 0)[0].text, 0, {}, "given_back"));
  hear("w2", {kSource});
  pool.tend(0);
  EXPECT_EQ(pool.texts_of("w1"), 0);
  EXPECT_EQ(pool.texts_of("w2"), 1);
}

}  // namespace
}  // namespace holdfast::rendezvous
