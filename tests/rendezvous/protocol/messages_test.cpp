// Every message is written as text and reads back the same; a wrong value is refused with the name of its field.
#include "rendezvous/protocol/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace holdfast::rendezvous {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// Writes a message, reads it back and writes it again. Equal JSON shows that no field was lost on the way.
template <typename Message>
Message round_trip(const Message& message) {
  const std::string text = json_text(Json(message));
  const auto back = Json::parse(text).get<Message>();
  EXPECT_EQ(json_text(Json(back)), text);
  return back;
}

// Removes each field from a message's JSON, one at a time. Reading must name the missing field, or succeed if it is optional.
template <typename Message>
void expect_named_when_missing(const Message& message, const std::vector<std::string>& optional_fields) {
  const Json whole(message);
  for (const auto& [name, value] : whole.items()) {
    Json without = whole;
    without.erase(name);
    if (std::ranges::find(optional_fields, name) != optional_fields.end()) {
      EXPECT_NO_THROW(without.get<Message>()) << name;
      continue;
    }
    try {
      without.get<Message>();
      ADD_FAILURE() << name << " may be missing";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), name + ": is missing");
    }
  }
}

RegisterRequest a_registration() {
  RegisterRequest m;
  m.name = "node3-4711";
  m.incarnation = "i1";
  m.node = "node3";
  m.pid = 4712;
  m.address = "10.0.0.2:41234";
  m.device = "cpu";
  m.device_model = "Some CPU";
  m.numerics = "cpu/avx512/products-3";
  m.memory_bytes = int64_t{1} << 40;
  m.memory_limit_bytes = int64_t{1} << 33;
  m.threads = 2;
  m.labels = {{"zone", "a"}};
  m.only_job = "j7";
  return m;
}

Directive a_join() {
  Directive m;
  m.kind = DirectiveKind::kJoin;
  m.job = "j1";
  m.generation = 7;
  m.reason = "w2 was lost";
  m.spec = job_spec_from_json({{"train_data_path", "train.bin"}, {"nodes", 2}});
  m.rank = 1;
  m.members = {{"w1", "i1", "10.0.0.1:1"}, {"w3", "i9", "10.0.0.3:1"}};
  m.secret = std::string(64, 'a');
  m.source = {StateSource::Kind::kCheckpoint, 60, "j1", "/shared", "0123"};
  return m;
}

TEST(Messages, RegisterRequestAndReply) {
  const auto back = round_trip(a_registration());
  EXPECT_EQ(back.memory_bytes, int64_t{1} << 40);
  EXPECT_EQ(back.memory_limit_bytes, int64_t{1} << 33);
  EXPECT_EQ(back.numerics, "cpu/avx512/products-3");
  EXPECT_EQ(back.protocol_version, kProtocolVersion);
  EXPECT_EQ(back.labels, a_registration().labels);
  EXPECT_EQ(back.only_job, "j7");
  EXPECT_TRUE(Json::parse(R"({"protocol_version": 2, "name": "w", "incarnation": "i"})").get<RegisterRequest>().labels.empty())
      << "as a worker of an older release says it";
  EXPECT_THROW((Json{{"protocol_version", 2}, {"name", "w"}, {"incarnation", "i"}, {"labels", {1}}}.get<RegisterRequest>()),
               std::invalid_argument);
  const auto reply = round_trip(RegisterReply{"w1", "s1", 500, 1500});
  EXPECT_EQ(reply.lease_ms, 1500);
  expect_named_when_missing(reply, {});
}

TEST(Messages, TheVersionOfAWorkerOfAnotherVersionIsRead) {
  const auto read =
      Json{{"protocol_version", 99}, {"name", "w"}, {"incarnation", "i"}, {"something", {"new"}}}.get<RegisterRequest>();
  EXPECT_EQ(read.protocol_version, 99);
}

TEST(Messages, AHeartbeatIsAStatusWithALoadThatMayBeMissing) {
  Heartbeat m;
  m.status.incarnation = "i1";
  m.status.step = 40;
  m.load = {0.5, 1 << 30, std::nullopt, 61.5};
  const Json json = m;
  EXPECT_EQ(json["step"], 40) << "beside the fields of the status";
  EXPECT_EQ(json["load"], (Json{{"busy", 0.5}, {"memory_used_bytes", 1 << 30}, {"celsius", 61.5}}));
  EXPECT_EQ(json.get<Heartbeat>().load, m.load);
  EXPECT_EQ(json.get<WorkerStatus>().step, 40) << "as a service of an older release reads it";
  EXPECT_EQ(Json(m.status).get<Heartbeat>().load, DeviceLoad{}) << "as a worker of an older release says it";
}

TEST(Messages, WorkerStatusAndReply) {
  for (const Phase phase : {Phase::kIdle, Phase::kPreparing, Phase::kPrepared, Phase::kRefused, Phase::kActive}) {
    WorkerStatus m;
    m.incarnation = "i1";
    m.phase = phase;
    m.job = "j1";
    m.generation = 3;
    m.step = 40;
    m.state_generation = 2;
    m.job_born = 1'700'000'000'123;
    m.data_digest = "123-ab";
    m.data_tokens = 123;
    m.leaving = true;
    m.reason = "why";
    const auto back = round_trip(m);
    EXPECT_EQ(back.phase, phase);
    EXPECT_TRUE(back.leaving);
    EXPECT_EQ(back.state_generation, 2);
    EXPECT_EQ(back.job_born, 1'700'000'000'123);
    EXPECT_EQ(Json(m)["phase"], phase_name(phase));
    expect_named_when_missing(m, {"job_born", "state_generation"});
  }
  EXPECT_EQ(round_trip(StatusReply{"tag"}).directive_tag, "tag");
}

TEST(Messages, DirectivesOfEveryKind) {
  for (const auto kind : {DirectiveKind::kIdle, DirectiveKind::kPrepare, DirectiveKind::kJoin, DirectiveKind::kYield,
                          DirectiveKind::kFence, DirectiveKind::kExit}) {
    Directive m = a_join();
    m.kind = kind;
    const auto back = round_trip(m);
    EXPECT_EQ(back.kind, kind);
    EXPECT_EQ(Json(m)["kind"], directive_name(kind));
    EXPECT_EQ(back.members, m.members);
    EXPECT_EQ(back.source, m.source);
    EXPECT_EQ(back.spec, m.spec);
  }
  Directive idle;
  EXPECT_FALSE(round_trip(idle).spec.has_value());
  expect_named_when_missing(a_join(), {"spec", "began", "job_born", "question", "released"});
}

TEST(Messages, ADirectivesTagDependsOnItsContent) {
  const Directive directive = a_join();
  EXPECT_EQ(directive.tag(), a_join().tag());
  EXPECT_EQ(directive.tag().size(), 32U);
  EXPECT_EQ(Json::parse(json_text(Json(directive))).get<Directive>().tag(), directive.tag())
      << "it survives the way to the worker";
  std::vector<Directive> changed(8, directive);
  changed[0].generation = 8;
  changed[1].rank = 0;
  changed[2].members[1].incarnation = "i10";
  changed[3].secret[0] = 'b';
  changed[4].source.step = 61;
  changed[5].spec->seed = 1;
  changed[6].checkpoint = true;
  changed[7].profile = ProfileOrder{"p1", 41, 20, 1000};
  EXPECT_EQ(round_trip(changed[7]).profile, changed[7].profile);
  for (const Directive& other : changed) EXPECT_NE(other.tag(), directive.tag());
}

TEST(Messages, ADirectivesTagCountsFieldsOfALaterReleaseToo) {
  Json json(a_join());
  EXPECT_EQ(Directive::tag_of(json), a_join().tag());
  json["field_of_a_later_release"] = 1;
  EXPECT_NE(Directive::tag_of(json), json.get<Directive>().tag())
      << "a worker that says this one would be told again and again";
}

TEST(Messages, ProgressWithALossThatIsNoNumber) {
  Progress m;
  m.worker = "w1";
  m.incarnation = "i1";
  m.generation = 2;
  m.step = 12;
  m.points = {{11, 3.5, 1.25, 6e-4, 0.5, 0.1, 2048, "00ff", std::nullopt, false, {}},
              {12, std::nan(""), 1, 6e-4, 0.5, 0.1, 2048, "00fe", 3.25, true, {{1, 0, 3}, {0, 3, 4}}}};
  m.state_hash = "abc";
  m.state_hash_step = 12;
  m.finished = true;
  m.failure = "no";
  const auto back = round_trip(m);
  ASSERT_EQ(back.points.size(), 2U);
  EXPECT_DOUBLE_EQ(back.points[0].loss, 3.5);
  EXPECT_FALSE(back.points[0].validation_loss.has_value());
  EXPECT_FALSE(back.points[0].refused);
  EXPECT_TRUE(back.points[1].refused);
  EXPECT_TRUE(std::isnan(back.points[1].loss));
  EXPECT_EQ(back.points[1].validation_loss, 3.25);
  EXPECT_EQ(back.points[1].shares, m.points[1].shares);
  expect_named_when_missing(m, {});
}

TEST(Messages, NumbersThatAreNotFiniteAreKept) {
  const double infinity = std::numeric_limits<double>::infinity();
  Progress m;
  m.points = {{1, infinity, -infinity, 0, 0, 0, 0, "", std::nan(""), true, {}}};
  const auto back = round_trip(m);
  EXPECT_EQ(back.points[0].loss, infinity);
  EXPECT_EQ(back.points[0].gradient_norm, -infinity);
  ASSERT_TRUE(back.points[0].validation_loss.has_value());
  EXPECT_TRUE(std::isnan(*back.points[0].validation_loss));
  EXPECT_EQ(Json(m)["points"][0]["loss"], "inf");
  EXPECT_THROW((void)Json::parse(R"({"job": "j1", "lines": [{"time_ms": "inf"}]})").get<LogBatch>(), std::invalid_argument);
}

TEST(Messages, FaultsCheckpointsEventsLogsAndLosses) {
  expect_named_when_missing(round_trip(FaultReport{"w1", "i1", 4, 2, "timeout", "no bytes from w3", -1, true}),
                            {"suspect_gone"});
  expect_named_when_missing(
      round_trip(CheckpointRecord{"w1", "i1", 4, 3, 60, "", "hash", "2026-01-01T00:00:00Z", 100, 90, 3, 0.1, 2.5, {20, 40}}),
      {"state_generation", "copy", "copied_at"});
  expect_named_when_missing(round_trip(CheckpointReply{{20, 40}}), {"needed_steps"});
  expect_named_when_missing(round_trip(WorkerEvent{"w1", "i1", "checkpoint_failed", "disk full"}), {});
  expect_named_when_missing(round_trip(LogBatch{"i1", "j1", {{1, "info", "one"}, {2, "error", "two"}}, 3}), {"number"});
  const WorkerLost lost = round_trip(WorkerLost{"i1", "killed by signal 9 (SIGKILL)", {"its last", "lines"}});
  EXPECT_EQ(lost.last_lines, (std::vector<std::string>{"its last", "lines"}));
  expect_named_when_missing(lost, {"last_lines"});
}

TEST(Messages, ProblemsMayComeFromOthers) {
  Problem m{409, "Conflict", "the job has ended", "wrong_state", {{"n_head", "does not divide"}}};
  const auto back = round_trip(m);
  ASSERT_EQ(back.errors.size(), 1U);
  EXPECT_EQ(back.errors[0].field, "n_head");
  expect_named_when_missing(m, {"status", "title", "detail", "code", "errors"});
}

TEST(Messages, AWrongStructuredValueIsNamedByItsType) {
  Json deep = Json::array();
  for (int i = 0; i < 300'000; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  Json json(WorkerEvent{"w1", "i1", "checkpoint_failed", "disk full"});
  json["kind"] = std::move(deep);
  try {
    json.get<WorkerEvent>();
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "kind: expected a string, got an array");
  }
}

TEST(Messages, TextThatIsNestedTooDeepIsNotJson) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(parse_json(nested(kJsonDepthMax)).json.is_array());
  EXPECT_FALSE(parse_json(nested(kJsonDepthMax)).too_deep);
  for (const int depth : {kJsonDepthMax + 2, 300'000}) {
    const ParsedJson parsed = parse_json(nested(depth));
    EXPECT_TRUE(parsed.too_deep);
    EXPECT_TRUE(parsed.json.is_discarded());
  }
  EXPECT_TRUE(parse_json("{").json.is_discarded());
  EXPECT_FALSE(parse_json("{").too_deep);
}

TEST(Messages, AnErrorNamesTheFieldWhereverItIs) {
  Json json(a_join());
  json["members"][1]["address"] = 5;
  try {
    json.get<Directive>();
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "members[1].address: expected a string, got 5");
  }
  json = Json(a_join());
  json["source"]["kind"] = "hope";
  EXPECT_THROW(
      {
        try {
          json.get<Directive>();
        } catch (const std::invalid_argument& error) {
          EXPECT_STREQ(error.what(), "source.kind: expected one of initial, memory, checkpoint, got \"hope\"");
          throw;
        }
      },
      std::invalid_argument);
  EXPECT_THROW(Json(5).get<WorkerLost>(), std::invalid_argument);
  EXPECT_THROW((Json{{"directive_tag", nullptr}}.get<StatusReply>()), std::invalid_argument);
}

TEST(Messages, NumbersThatDoNotFitAreRefused) {
  Json json(a_registration());
  for (const Json& bad : {Json(1.5), Json("1"), Json(UINT64_MAX), Json(int64_t{1} << 40)}) {
    json["threads"] = bad;
    EXPECT_THROW(json.get<RegisterRequest>(), std::invalid_argument) << bad;
  }
}

TEST(Messages, UnknownFieldsAreIgnored) {
  Json json(WorkerLost{"i1", "gone", {}});
  json["new_field"] = {1, 2, 3};
  EXPECT_EQ(json.get<WorkerLost>().reason, "gone");
}

TEST(Messages, BytesThatAreNotUtf8AreReplaced) {
  const std::string text = json_text(Json(LogBatch{"i1", "j1", {{1, "info", "caf\xe9"}}}));
  EXPECT_THAT(text, HasSubstr("caf\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace holdfast::rendezvous
