// The workers of a divided model: their stages and groups, whoever comes, goes and comes again.
#include "rendezvous/completions/stage_groups.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kStaged = "job:j1@60", kLater = "job:j1@80";

// The report of a worker that holds its layers of these models.
ReplicaReport report_of(const std::string& worker, const std::vector<std::string>& sources = {kStaged}, int life = 1) {
  ReplicaReport report{.incarnation = worker + "-" + std::to_string(life), .job = "j2", .wait_ms = 1000};
  for (const std::string& source : sources) {
    report.held.push_back(
        {.source = source, .fingerprint = "f", .address = {.url = "https://" + worker + "/" + source, .pin = "p", .key = "k"}});
  }
  return report;
}

class Arranged : public ::testing::Test {
 protected:
  void come(StageGroups& groups, const std::vector<std::string>& workers) {
    for (const std::string& worker : workers) groups.hear(worker, report_of(worker));
    groups.arrange(true);
    for (const std::string& worker : workers) say(groups, worker);
  }
  // A report that follows what the worker was told.
  void say(StageGroups& groups, const std::string& worker, const std::vector<std::string>& sources = {kStaged}) {
    ReplicaReport report = report_of(worker, sources);
    report.place = groups.place_of(worker);
    groups.hear(worker, report);
  }
  std::map<std::string, std::vector<std::string>> all(const StageGroups& groups) {
    std::map<std::string, std::vector<std::string>> found;
    for (const std::string& worker : groups.workers()) {
      if (const auto group = groups.group_of(worker); !group.empty()) found[worker] = group;
    }
    return found;
  }
};

TEST_F(Arranged, InGroupsAsTheyCome) {
  StageGroups groups(2);
  come(groups, {"a"});
  EXPECT_THAT(all(groups), IsEmpty());
  come(groups, {"b"});
  EXPECT_THAT(groups.group_of("b"), ElementsAre("a", "b"));
  come(groups, {"c"});
  come(groups, {"d"});
  EXPECT_THAT(groups.group_of("b"), ElementsAre("a", "b"));
  EXPECT_THAT(groups.group_of("d"), ElementsAre("c", "d"));
  EXPECT_TRUE(groups.is_last("d"));
  EXPECT_FALSE(groups.is_last("c"));
  EXPECT_EQ(groups.place_of("nobody"), std::nullopt);
}

TEST_F(Arranged, AWorkerInNoGroupTakesThePlaceOfOneThatIsLost) {
  StageGroups groups(2);
  come(groups, {"a", "b", "c"});  // c has the first layers, too
  groups.forget("b");
  groups.arrange(true);
  ASSERT_EQ(all(groups).size(), 1);
  EXPECT_THAT(all(groups).begin()->second, testing::UnorderedElementsAre("a", "c"));
  come(groups, {"b"});
  EXPECT_EQ(all(groups).size(), 1) << "those that are in one stay";
}

TEST_F(Arranged, OneThatIsToLeaveIsInNoGroup) {
  StageGroups groups(2);
  come(groups, {"a", "b", "c", "d"});
  groups.set_leaving("a", true);
  groups.arrange(true);
  EXPECT_THAT(groups.group_of("b"), IsEmpty());
  EXPECT_THAT(groups.group_of("d"), ElementsAre("c", "d"));
  groups.set_leaving("a", false);
  groups.arrange(true);
  EXPECT_THAT(groups.group_of("b"), ElementsAre("a", "b"));
}

TEST_F(Arranged, ALastStageIsToldOfModelsThatAllStagesBeforeItHaveReady) {
  StageGroups groups(3);
  come(groups, {"a", "b", "c"});
  say(groups, "a", {kStaged, kLater});
  const auto group = all(groups).begin()->second;
  const std::optional<StagePlace> place = groups.place_of(group.back());
  ASSERT_TRUE(place);
  ASSERT_EQ(place->earlier.size(), 1);
  EXPECT_EQ(place->earlier[0].source, kStaged);
  ASSERT_EQ(place->earlier[0].stages.size(), 2);
  EXPECT_EQ(place->earlier[0].stages[1].url, "https://" + group[1] + "/" + kStaged);
  EXPECT_THAT(groups.place_of(group[0])->earlier, IsEmpty());
  ReplicaOrders orders{.life = "l", .place = place};
  EXPECT_EQ(nlohmann::json(orders).get<ReplicaOrders>().place, place);
}

TEST_F(Arranged, AServiceThatBeginsAnewLeavesWorkersTheirStages) {
  StageGroups before(2);
  come(before, {"a", "b", "c", "d"});
  StageGroups after(2);
  for (const std::string worker : {"d", "c", "b", "a"}) {
    ReplicaReport report = report_of(worker);
    report.place = nlohmann::json(ReplicaOrders{.place = before.place_of(worker)}).get<ReplicaOrders>().place;
    after.hear(worker, report);
  }
  after.arrange(true);
  for (const std::string worker : {"a", "b", "c", "d"}) EXPECT_EQ(after.is_last(worker), before.is_last(worker)) << worker;
  EXPECT_EQ(all(after).size(), 2);
}

TEST_F(Arranged, ALastStageIsAReplicaWhenItSaysSoOfTheStagesThatAreThere) {
  StageGroups groups(2);
  for (const std::string worker : {"a", "b"}) groups.hear(worker, report_of(worker));
  groups.arrange(true);
  say(groups, "a");
  EXPECT_THAT(groups.ready_in_group("b"), IsEmpty()) << "it was not told of a yet";
  say(groups, "b");
  ASSERT_EQ(groups.ready_in_group("b").size(), 1);
  EXPECT_EQ(groups.ready_in_group("b")[0].source, kStaged);
  EXPECT_THAT(groups.ready_in_group("a"), IsEmpty());
  say(groups, "a", {kStaged, kLater});
  EXPECT_EQ(groups.ready_in_group("b").size(), 1) << "what it has stays";
  ReplicaReport anew = report_of("a");
  anew.held[0].address.url += "/again";
  anew.place = groups.place_of("a");
  groups.hear("a", anew);
  EXPECT_THAT(groups.ready_in_group("b"), IsEmpty()) << "a reads its layers again";
}

TEST_F(Arranged, AWorkerThatCannotReadAModelMakesRoomForOneThatCan) {
  StageGroups groups(2);
  come(groups, {"a", "b", "c"});  // c has the first layers, too
  ReplicaReport report = report_of("a");
  report.place = groups.place_of("a");
  report.unreadable = {{kLater, "it is not there"}};
  groups.hear("a", report);
  EXPECT_TRUE(groups.is_unreadable(kLater));
  groups.arrange(true);
  EXPECT_THAT(groups.group_of("b"), ElementsAre("c", "b"));
  EXPECT_FALSE(groups.is_unreadable(kLater));
}

TEST_F(Arranged, AWorkerThatTheLastStageCannotReachMakesRoomForOneThatItMay) {
  StageGroups groups(2);
  come(groups, {"a", "b", "c"});
  const auto says_unreached = [&](const std::vector<std::string>& urls) {
    ReplicaReport report = report_of("b");
    report.place = groups.place_of("b");
    report.unreached = urls;
    groups.hear("b", nlohmann::json(report).get<ReplicaReport>());
    groups.arrange(true);
  };
  says_unreached({"https://a/" + kStaged});
  EXPECT_THAT(groups.group_of("b"), ElementsAre("c", "b"));
  says_unreached({"https://a/" + kStaged, "https://c/" + kStaged});
  EXPECT_THAT(groups.group_of("b"), ElementsAre("c", "b")) << "neither is better";
  says_unreached({});
  EXPECT_THAT(groups.group_of("b"), ElementsAre("c", "b")) << "those that are in one stay";
  groups.forget("c");
  groups.arrange(true);
  EXPECT_THAT(groups.group_of("b"), ElementsAre("a", "b"));
  says_unreached({"https://a/" + kStaged});
  EXPECT_THAT(groups.group_of("b"), ElementsAre("a", "b")) << "nobody is better";
}

// As many groups as there are workers for, none twice, each with a worker of every stage; a whole group stays as it is.
TEST_F(Arranged, AsManyAsThereCanBeWhateverHappens) {
  std::mt19937 random(11);
  for (int64_t stages = 2; stages <= 4; ++stages) {
    StageGroups groups(stages);
    std::set<std::string> there, leaving;
    std::map<std::string, int> lives;
    for (int i = 0; i < 2000; ++i) {
      const std::string worker = "w" + std::to_string(random() % 13);
      const auto before = all(groups);
      const uint32_t what = random() % 4;
      if (what == 0 && there.erase(worker) > 0) {
        groups.forget(worker);
        leaving.erase(worker);
      } else if (what == 1 && there.contains(worker)) {
        const bool leaves = leaving.erase(worker) == 0;
        if (leaves) leaving.insert(worker);
        groups.set_leaving(worker, leaves);
      } else if (what == 2 && there.contains(worker)) {
        groups.hear(worker, report_of(worker, {kStaged}, ++lives[worker]));  // a new life
        leaving.erase(worker);
      } else {
        groups.hear(worker, report_of(worker, {kStaged}, lives[worker]));
        there.insert(worker);
      }
      groups.arrange(true);
      const auto now = all(groups);
      ASSERT_EQ(now.size(), (there.size() - leaving.size()) / static_cast<size_t>(stages))
          << "stages " << stages << ", turn " << i;
      std::set<std::string> used;
      for (const auto& [last, group] : now) {
        ASSERT_EQ(group.size(), stages);
        for (size_t stage = 0; stage < group.size(); ++stage) {
          ASSERT_TRUE(used.insert(group[stage]).second) << group[stage] << " is in two groups";
          ASSERT_EQ(groups.place_of(group[stage])->stage, stage);
          ASSERT_FALSE(leaving.contains(group[stage]));
        }
      }
      for (const auto& [last, group] : before) {
        const bool is_whole = std::ranges::all_of(
            group, [&](const std::string& name) { return name != worker && there.contains(name) && !leaving.contains(name); });
        if (is_whole) {
          ASSERT_EQ(groups.group_of(last), group) << "a whole group was torn, turn " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace holdfast::rendezvous
