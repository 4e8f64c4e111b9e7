// `holdfast jobs diff`: the differences, in the order in which people read them, and the part of a value that differs.
#include "ops/cli/jobs/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"

namespace holdfast::ops {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json a_finished_job(const std::string& id, int batch, double loss, const std::string& hash) {
  return {
      {"id", id},
      {"name", ""},
      {"state", "succeeded"},
      {"step", 60},
      {"loss", loss},
      {"state_hash", hash},
      {"state_hash_step", 60},
      {"started_at", "2026-01-02T23:59:58.500Z"},
      {"finished_at", "2026-01-03T00:00:02.750Z"},
      {"spec", {{"train_data_path", "/data/train.bin"}, {"seed", 1}, {"batch_size", batch}, {"from_the_future", batch > 2}}}};
}

TEST(JobDiff, NamesFieldsOfTheSpecInTheirOrderThenUnknownFields) {
  Json a = a_finished_job("j1", 2, 3.5, "aa"), b = a_finished_job("j2", 4, 3.25, "bb");
  b["spec"]["seed"] = 2;
  b["spec"].erase("train_data_path");
  const JobDiff diff = diff_of(a, b);
  std::vector<std::string> names;
  for (const Difference& one : diff.spec) names.push_back(one.name);
  EXPECT_EQ(names, (std::vector<std::string>{"train_data_path", "seed", "batch_size", "from_the_future"}));
  EXPECT_TRUE(diff.spec.front().b.is_null());
  ASSERT_EQ(diff.result.size(), 2U) << "the time is the same";
  EXPECT_EQ(diff.result[0].name, "loss");
  EXPECT_EQ(diff.result[1].name, "state_hash");
  EXPECT_FALSE(diff.same_bits);
}

TEST(JobDiff, TheTimeIsFromStartToEnd) {
  Json a = a_finished_job("j1", 2, 1, "aa"), b = a_finished_job("j2", 2, 1, "aa");
  b["finished_at"] = nullptr;
  const JobDiff diff = diff_of(a, b);
  ASSERT_EQ(diff.result.size(), 1U);
  EXPECT_EQ(diff.result[0].name, "duration_s");
  EXPECT_DOUBLE_EQ(diff.result[0].a.get<double>(), 4.25);
  EXPECT_TRUE(diff.result[0].b.is_null());
}

TEST(JobDiff, EqualHashesAfterTheSameStepAreTheSameBits) {
  const Json a = a_finished_job("j1", 2, 1, "aa");
  Json b = a_finished_job("j2", 2, 1, "aa");
  EXPECT_TRUE(diff_of(a, b).same_bits);
  b["state_hash_step"] = 40;
  EXPECT_FALSE(diff_of(a, b).same_bits);
  b["state_hash_step"] = 60;
  b["state_hash"] = a_finished_job("", 2, 1, "")["state_hash"];
  EXPECT_FALSE(diff_of(b, b).same_bits) << "no hash is no proof";
}

TEST(JobDiff, OnlyTheDifferentPartOfAValueIsBold) {
  const auto bold = [](const std::string& text) { return "\033[1m" + text + "\033[0m"; };
  EXPECT_EQ(with_differing_part_bold("/data/a/train.bin", "/data/bc/train.bin"),
            std::pair("/data/" + bold("a") + "/train.bin", "/data/" + bold("bc") + "/train.bin"));
  EXPECT_EQ(with_differing_part_bold("10", "100"), std::pair(std::string("10"), "10" + bold("0")));
  EXPECT_EQ(with_differing_part_bold("训", "练"), std::pair(bold("训"), bold("练"))) << "characters are not torn";
  EXPECT_EQ(with_differing_part_bold("-", "3"), std::pair(bold("-"), bold("3")));
}

TEST(JobDiff, IsShownForPeopleAndAsJson) {
  FakeService service;
  service.answer("GET /v1/jobs/j1", a_finished_job("j1", 2, 3.5, "aa"));
  service.answer("GET /v1/jobs/j2", a_finished_job("j2", 4, 3.25, "bb"));
  const Said said = holdfast({"jobs", "diff", "j1", "j2", "--server", service.url()});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(said.out,
            "j1 and j2: 2 fields of the spec differ\n"
            "SPEC\n"
            "batch_size       2      4\n"
            "from_the_future  false  true\n"
            "RESULT\n"
            "loss        3.5000  3.2500\n"
            "state_hash  aa      bb\n");
  const Json json = Json::parse(holdfast({"jobs", "diff", "j1", "j2", "--json", "--server", service.url()}).out);
  EXPECT_EQ(json["spec"][0], (Json{{"name", "batch_size"}, {"a", 2}, {"b", 4}}));
  const Said same = holdfast({"jobs", "diff", "j1", "j1", "--server", service.url()});
  EXPECT_EQ(same.out, "j1 and j1: the same spec\nThe same bits after step 60: state hash aa\n");
  EXPECT_THAT(same.out, Not(HasSubstr("RESULT")));
}

}  // namespace
}  // namespace holdfast::ops
