// The audit of a ledger: microbatches that are missing, double or too many are named with their steps; and the command over
// prepared answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/cli/audit_ledger.h"
#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

Json row(int64_t first_step, int64_t last_step, int64_t first, int64_t last, const Json& voided_by = nullptr) {
  return {{"first_step", first_step},
          {"last_step", last_step},
          {"first_microbatch", first},
          {"last_microbatch", last},
          {"voided_by", voided_by}};
}
Json a_ledger(const std::vector<Json>& rows, int64_t steps, int64_t first_step = 1) {
  Json ledger = {{"microbatches", 6}, {"first_step", first_step}, {"rows", rows}, {"steps", Json::array()}};
  for (int64_t step = first_step; step <= steps; ++step) ledger["steps"].push_back({{"step", step}, {"data_digest", "0"}});
  return ledger;
}
LedgerSummary audited(const Json& ledger, int64_t step) {
  LedgerSummary summary = audit_ledger(ledger, step);
  NotedSteps noted(summary.first_step, step);
  for (const Json& row : ledger["steps"]) noted.take(row["step"], summary.findings);
  noted.finish(summary.findings);
  return summary;
}
std::vector<std::string> findings(const std::vector<Json>& rows, int64_t step = 20) {
  return audited(a_ledger(rows, step), step).findings.listed;
}

TEST(Audit, ARunThroughSeveralWorldsIsWhole) {
  const auto summary = audited(
      a_ledger({row(1, 10, 0, 3), row(1, 10, 3, 6), row(11, 11, 0, 6), row(12, 20, 0, 2), row(12, 20, 2, 4), row(12, 20, 4, 6)},
               20),
      20);
  EXPECT_THAT(summary.findings.listed, IsEmpty());
  EXPECT_EQ(summary.last_step, 20);
  EXPECT_EQ(summary.voided_steps, 0);
}

TEST(Audit, VoidedRowsAreOnlyCounted) {
  const auto summary =
      audited(a_ledger({row(1, 10, 0, 6), row(11, 14, 0, 3, 3), row(11, 14, 3, 6, 3), row(11, 20, 0, 6)}, 20), 20);
  EXPECT_THAT(summary.findings.listed, IsEmpty());
  EXPECT_EQ(summary.voided_steps, 4);
}

TEST(Audit, ErrorsInTheLedgerAreNamed) {
  EXPECT_THAT(findings({row(1, 20, 0, 2), row(1, 20, 3, 6)}),
              ElementsAre("steps 1 to 20: microbatches 2 to 2 are accounted to nobody"));
  EXPECT_THAT(findings({row(1, 20, 0, 4), row(1, 20, 3, 6)}),
              ElementsAre("steps 1 to 20: microbatches 3 to 3 are accounted to two workers"));
  EXPECT_THAT(findings({row(1, 20, 0, 5)}), ElementsAre("steps 1 to 20: microbatches 5 to 5 are accounted to nobody"));
  EXPECT_THAT(findings({row(1, 20, 0, 7)}), ElementsAre("steps 1 to 20: microbatch 6 is accounted for, and a step has 6"));
  EXPECT_THAT(findings({row(1, 9, 0, 6), row(11, 20, 0, 6)}),
              ElementsAre("steps 10 to 10: microbatches 0 to 5 are accounted to nobody"));
  EXPECT_THAT(findings({row(1, 12, 0, 6), row(12, 20, 0, 6)}),
              ElementsAre("steps 12 to 12: microbatches 0 to 5 are accounted to two workers"));
  EXPECT_THAT(findings({row(1, 22, 0, 6)}), ElementsAre("steps 21 to 22 are accounted for, and the job is at step 20"));
  EXPECT_THAT(findings({row(1, 20, 0, 6, 2)}), ElementsAre("steps 1 to 20: microbatches 0 to 5 are accounted to nobody"));
}

TEST(Audit, TheTableOfStepsIsComparedWithTheLedger) {
  Json ledger = a_ledger({row(1, 20, 0, 6)}, 20);
  ledger["steps"].erase(4);
  ledger["steps"].push_back({{"step", 9}});
  EXPECT_THAT(audited(ledger, 20).findings.listed, ElementsAre("step 9 is noted twice", "step 5 is not noted"));
}

TEST(Audit, AJobThatBeganFromACheckpointBeginsThere) {
  EXPECT_THAT(audited(a_ledger({row(26, 60, 0, 6)}, 60, 26), 60).findings.listed, IsEmpty());
  EXPECT_THAT(audited(a_ledger({row(25, 60, 0, 6)}, 60, 26), 60).findings.listed,
              ElementsAre("steps 25 to 25 are accounted for, and the job began with step 26"));
}

TEST(Audit, AJobWithoutStepsIsFine) {
  EXPECT_THAT(audited(a_ledger({}, 0), 0).findings.listed, IsEmpty());
}

TEST(Audit, ManyFindingsAreCounted) {
  const auto summary = audited({{"microbatches", 6}, {"rows", Json::array()}, {"steps", Json::array()}}, 100);
  EXPECT_EQ(summary.findings.listed.size(), Findings::kListedMax);
  EXPECT_EQ(summary.findings.total, 101U);
}

Json page(Json ledger, int64_t step, int64_t generation = 1, const Json& next = nullptr) {
  ledger["step"] = step;
  ledger["generation"] = generation;
  ledger["next_page_token"] = next;
  return ledger;
}

TEST(Audit, AllPagesOfARunningJobAreReadAtTheFirstPagesStep) {
  FakeService service;
  const std::string call = "GET /v1/jobs/j1/ledger";
  service.answer("GET /v1/jobs/j1", {{"id", "j1"}, {"step", 3}, {"spec", Json::object()}});
  service.answer(call, page(a_ledger({row(1, 20, 0, 6)}, 10), 20, 1, "pa"));
  service.answer(call, page(a_ledger({row(21, 25, 0, 6)}, 25, 11), 25, 2));  // another generation: all pages are read again
  service.answer(call, page(a_ledger({row(1, 20, 0, 6)}, 10), 26, 2, "pa"));
  service.answer(call, page(a_ledger({row(21, 28, 0, 3), row(21, 28, 3, 6)}, 28, 11), 28, 2));
  const Said said = holdfast({"audit", "j1", "--server", service.url()});
  EXPECT_EQ(said.out, "j1: ok. Steps 1 to 26: each of 6 microbatches once.\n");
  EXPECT_EQ(said.exit_code, 0);
  ASSERT_EQ(service.requests(call).size(), 4U);
  EXPECT_EQ(service.requests(call)[3].query.at("page_token"), "pa");
}

TEST(Audit, TheCommandExits1WhenSomethingIsWrong) {
  FakeService service;
  service.answer("GET /v1/jobs/j1", {{"id", "j1"}, {"step", 19}, {"spec", Json::object()}});  // the job has gone on since
  service.answer("GET /v1/jobs/j1/ledger", page(a_ledger({row(1, 20, 0, 6)}, 20), 20));
  service.answer("GET /v1/jobs/j1/ledger", page(a_ledger({row(1, 20, 0, 5)}, 20), 20));
  const Said good = holdfast({"audit", "j1", "--server", service.url()});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.out, "j1: ok. Steps 1 to 20: each of 6 microbatches once.\n");
  const Said bad = holdfast({"audit", "j1", "--server", service.url(), "--json"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_EQ(Json::parse(bad.out)["ok"], false);
}

}  // namespace
}  // namespace holdfast::ops
