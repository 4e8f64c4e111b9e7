// `holdfast data ls` and `rm`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/cli/fake_jobs.h"

namespace holdfast::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Json a_set(const std::string& name, const Json& more = Json::object()) {
  Json set = {{"name", name},
              {"digest", std::string(64, 'a')},
              {"bytes", 1'200'000'000},
              {"chunks", 287},
              {"tokens", 600'000'000},
              {"files", {{{"name", "train.bin"}}, {{"name", "val.bin"}}}},
              {"pushed_at", "2026-01-02T03:04:05.678Z"},
              {"jobs", {"j1", "j2"}}};
  set.update(more);
  return set;
}

class DataSets : public Jobs {
 protected:
  void lists(const std::vector<Json>& sets, const Json& limit = nullptr) {
    Json page = a_page("data_sets", sets);
    page.update({{"used_bytes", 1'200'000'000}, {"unneeded_bytes", 4'000'000}, {"limit_bytes", limit}});
    service_.answer("GET /v1/data/sets", page);
  }
};

TEST_F(DataSets, LsShowsEachWithItsSizeTokensFilesAndJobs) {
  lists({a_set("wiki"), a_set("code", {{"name", nullptr}, {"jobs", Json::array()}})}, 10'737'418'240);
  const Said said = run({"data", "ls", "--wide"});
  EXPECT_EQ(said.exit_code, 0) << said.err;
  for (const char* words :
       {"wiki", "1.2 GB", "600,000,000", "train.bin,val.bin", "2026-01-02 03:04:05", "j1,j2", "aaaaaaaaaaaa"})
    EXPECT_THAT(said.out, HasSubstr(words));
  EXPECT_THAT(said.out, HasSubstr("1.2 GB are kept of at most 10.7 GB; 4.0 MB of it are of pushes that have not ended."));
}

TEST_F(DataSets, LsWithoutDataSetsSaysHowToMakeOne) {
  lists({});
  EXPECT_THAT(run({"data", "ls"}).out, AllOf(HasSubstr("holdfast data push"), Not(HasSubstr("of at most"))));
}

TEST_F(DataSets, LsAsJsonHasTheRoom) {
  lists({a_set("wiki")});
  const Json json = Json::parse(run({"data", "ls", "--json"}).out);
  EXPECT_EQ(json["data_sets"][0]["name"], "wiki");
  EXPECT_EQ(json["used_bytes"], 1'200'000'000);
  EXPECT_EQ(json["limit_bytes"], nullptr);
}

TEST_F(DataSets, RmRemovesOneByItsName) {
  service_.answer("DELETE /v1/data/sets/wiki", Json::object());
  EXPECT_THAT(run({"data", "rm", "wiki"}).out, HasSubstr("wiki is removed"));
}

TEST_F(DataSets, RmOfADataSetInUseSaysByWhom) {
  service_.problem("DELETE /v1/data/sets/wiki", 409, "j1 is not over and uses the data set wiki");
  const Said said = run({"data", "rm", "wiki"});
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.err, HasSubstr("j1 is not over"));
}

}  // namespace
}  // namespace holdfast::ops
