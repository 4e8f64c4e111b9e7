// The audit of a ledger: microbatches that are missing, double or too many are named with their steps; and the command over
// prepared answers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/data/training_data.h"
#include "ops/cli/audit_ledger.h"
#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
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

// A job over two files, and a ledger of six microbatches a step with digests of the tokens that its order gives.
class AuditOfAMixture : public ::testing::Test {
 protected:
  AuditOfAMixture() {
    fs::create_directories(folder_);
    for (size_t i = 0; i < 2; ++i) {
      for (uint16_t token = 0; token < (i == 0 ? 200 : 50); ++token)
        tokens_[i].push_back(static_cast<uint16_t>(1000 * i + token));
      std::ofstream file(path(i), std::ios::binary);
      file.write(reinterpret_cast<const char*>(tokens_[i].data()), static_cast<std::streamsize>(2 * tokens_[i].size()));
    }
    const Json spec = {{"train_data_path", "a.bin:0.7,b.bin:0.3"}, {"seed", 5}, {"batch_size", 2}, {"block_size", 8}};
    service_.answer("GET /v1/jobs/j1", {{"id", "j1"}, {"step", 20}, {"spec", spec}});
    const model::TrainingData data({{tokens_[0], 7}, {tokens_[1], 3}}, 5, {2, 8, 6});
    Json ledger = a_ledger({row(1, 20, 0, 6)}, 20);
    for (Json& step : ledger["steps"]) step["data_digest"] = digest_of(data, step["step"].get<int64_t>() - 1);
    service_.answer("GET /v1/jobs/j1/ledger", page(ledger, 20));
  }
  ~AuditOfAMixture() override { fs::remove_all(folder_); }

  static std::string digest_of(const model::TrainingData& data, int64_t step) {
    std::vector<int32_t> inputs(16), targets(16);
    uint64_t sum = 0;
    for (int64_t microbatch = 0; microbatch < 6; ++microbatch) {
      data.fill(step, microbatch, inputs, targets);
      sum += model::microbatch_digest(step, microbatch, inputs, targets);
    }
    return fmt::format("{:016x}", sum);
  }
  std::string path(size_t source) const { return folder_ / (source == 0 ? "a.bin" : "b.bin"); }
  Said audit(std::vector<std::string> files) {
    std::vector<std::string> words{"audit", "j1", "--server", service_.url()};
    for (const std::string& file : files) words.insert(words.end(), {"--data", file});
    return holdfast(words);
  }

  fs::path folder_ = fs::temp_directory_path() / ("holdfast-audit-" + std::to_string(getpid()));
  std::vector<uint16_t> tokens_[2];
  FakeService service_;
};

TEST_F(AuditOfAMixture, ChecksTheTokensOfEachStep) {
  const Said said = audit({path(0), path(1)});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out,
            "j1: ok. Steps 1 to 20: each of 6 microbatches once; every step on the tokens that the data order gives it.\n");
}

TEST_F(AuditOfAMixture, FindsFilesInAnotherOrder) {
  const Said said = audit({path(1), path(0)});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(said.out, HasSubstr("step 1 was computed on other tokens: the data order gives "));
}

TEST_F(AuditOfAMixture, WantsAFileForEachSource) {
  EXPECT_EQ(audit({path(0)}).err,
            "holdfast: --data was given once, and the job trains on 2 files: give --data once for each, in the order of "
            "a.bin:0.7,b.bin:0.3\n");
  const Said said = audit({path(0), path(1), path(1)});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("--data was given 3 times, and the job trains on 2 files"));
}

}  // namespace
}  // namespace holdfast::ops
