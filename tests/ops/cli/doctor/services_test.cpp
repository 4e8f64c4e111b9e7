// The doctor's verdicts on several services and their database.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/cli/doctor/doctor.h"
#include "rendezvous/store/postgresql/survey.h"

namespace holdfast::ops {
namespace {

using rendezvous::PostgresqlSurvey;
using ::testing::HasSubstr;

PostgresqlSurvey a_survey() {
  PostgresqlSurvey seen;
  seen.synchronous_standby_names = "second";
  seen.replicas = {{"second", "streaming", "sync", 0.2}};
  seen.schema = 1;
  seen.leader = {7, "a1", "http://node1:7070", ""};
  seen.led_for_s = 3600;
  seen.beats = true;
  return seen;
}

TEST(DoctorOfServices, ASynchronousReplicaThatIsMissingMakesEveryCommitWait) {
  PostgresqlSurvey seen = a_survey();
  EXPECT_EQ(judge_replicas(seen).verdict, Verdict::kOk);
  EXPECT_THAT(judge_replicas(seen).seen, HasSubstr("second (streaming, sync, 0.2 s behind)"));
  seen.replicas[0].replay_s = 90;
  EXPECT_EQ(judge_replicas(seen).verdict, Verdict::kWarn);
  seen.replicas = {{"third", "streaming", "async", std::nullopt}};
  EXPECT_EQ(judge_replicas(seen).verdict, Verdict::kFail);
  EXPECT_THAT(judge_replicas(seen).seen, HasSubstr("no such replica is connected, only third"));
  seen.replicas = {{"", "", "", std::nullopt}};  // as a user sees it whom nobody has granted more
  EXPECT_EQ(judge_replicas(seen).verdict, Verdict::kWarn);
  EXPECT_THAT(judge_replicas(seen).remedy, HasSubstr("pg_monitor"));
}

TEST(DoctorOfServices, WithoutASynchronousReplicaAFailoverMayLoseSomething) {
  PostgresqlSurvey seen = a_survey();
  seen.synchronous_standby_names = "";
  seen.replicas[0].sync = "async";
  EXPECT_EQ(judge_replicas(seen).verdict, Verdict::kWarn);
  EXPECT_THAT(judge_replicas(seen).seen, HasSubstr("may lose what was answered last"));
  seen.replicas.clear();
  EXPECT_THAT(judge_replicas(seen).seen, HasSubstr("so is the database"));
}

TEST(DoctorOfServices, ALeaderCountsUp) {
  PostgresqlSurvey seen = a_survey();
  EXPECT_EQ(judge_leader(seen).verdict, Verdict::kOk);
  EXPECT_THAT(judge_leader(seen).seen, HasSubstr("http://node1:7070 in term 7"));
  seen.beats = false;
  EXPECT_EQ(judge_leader(seen).verdict, Verdict::kFail);
  EXPECT_THAT(judge_leader(seen).seen, HasSubstr("nobody leads now"));
  seen.schema.reset();
  EXPECT_EQ(judge_leader(seen).verdict, Verdict::kWarn);
}

TEST(DoctorOfServices, TheDatabasesClockIsComparedWithThisMachines) {
  PostgresqlSurvey seen = a_survey();
  seen.asked_ms = 1'000'000;
  seen.answered_ms = 1'000'200;
  seen.clock_ms = 1'001'000;
  EXPECT_EQ(judge_database_clock(seen).verdict, Verdict::kOk);
  seen.clock_ms = 1'010'100;
  EXPECT_EQ(judge_database_clock(seen).verdict, Verdict::kWarn);
  EXPECT_THAT(judge_database_clock(seen).seen, HasSubstr("10.0 s ahead"));
}

TEST(DoctorOfServices, OneLeadsAndTheOthersStandBy) {
  std::vector<ServiceAsked> services{{"http://a", "ok", "", "1", "", 0.1},
                                     {"http://b", "standing_by", "http://a", "1", "", -0.3}};
  std::vector<Check> checks = judge_services(services);
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].verdict, Verdict::kOk);
  EXPECT_EQ(checks[0].seen, "http://a leads; http://b stands by");
  EXPECT_EQ(checks[1].verdict, Verdict::kOk);
  services[1].ahead_s = 9;
  EXPECT_EQ(judge_services(services)[1].verdict, Verdict::kWarn);
  services[1].status = "";
  services[1].problem = "cannot reach http://b";
  EXPECT_EQ(judge_services(services)[0].verdict, Verdict::kWarn);
  EXPECT_EQ(judge_services(services)[0].remedy, "cannot reach http://b");
  services[1].status = "ok";
  EXPECT_THAT(judge_services(services)[0].seen, HasSubstr("do not share one database"));
  services[0].status = services[1].status = "waiting";
  EXPECT_EQ(judge_services(services)[0].verdict, Verdict::kFail);
}

}  // namespace
}  // namespace holdfast::ops
