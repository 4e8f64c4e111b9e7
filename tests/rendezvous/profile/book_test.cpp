// The book of profiles: who is waited for, and until when.
#include "rendezvous/profile/book.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/profile/parts.h"

namespace holdfast::rendezvous {
namespace {

using testing::HasSubstr;

ProfiledJob training(const std::string& id = "j1", int64_t step = 10) {
  return {.id = id,
          .state = "between two generations",
          .trains = true,
          .generation = 3,
          .members = {{"a", "a-1", "a:1"}, {"b", "b-1", "b:1"}},
          .committed_step = step,
          .total_steps = 1000,
          .step_s = 0.1};
}

class Book : public testing::Test {
 protected:
  ProfilePart part_of(const std::string& worker, const std::string& id) {
    ProfilePart part = PartMaker(worker).step(20, 0).part;
    part.profile = id;
    return part;
  }
  bool look(const ProfiledJob& job, int64_t now_ms) {
    return book_.look(job, now_ms, [this](const Member& member) { return member.worker != lost_; });
  }
  ProfileBook book_;
  std::string lost_;
};

TEST_F(Book, AllRanksRecordTheSameStepsSomeWayAhead) {
  const auto profile = book_.begin(training(), 20, 1);
  ASSERT_TRUE(profile);
  EXPECT_EQ((*profile)->order.from_step, 19);  // 0.7 s ahead, and the step under way
  EXPECT_EQ((*profile)->order.steps, 20);
  EXPECT_EQ(book_.order_for("j1", 3), (*profile)->order);
  EXPECT_FALSE(book_.order_for("j1", 4));
  EXPECT_FALSE(book_.order_for("j2", 3));
}

TEST_F(Book, WhatCannotBeRecordedIsRefused) {
  ProfiledJob job = training();
  job.trains = false;
  EXPECT_THAT(book_.begin(job, 20, 1).error().detail, HasSubstr("is between two generations"));
  EXPECT_THAT(book_.begin(training("j1", 995), 20, 1).error().detail, HasSubstr("step 995 of 1000"));
  EXPECT_EQ((*book_.begin(training("j1", 980), 20, 1))->order.steps, 12) << "as many as are left";
  EXPECT_EQ(book_.begin(training(), 20, 1).error().code, "profile_under_way");
  ProfiledJob large = training("j2");
  large.members.assign(1000, {"a", "a-1", ""});
  EXPECT_EQ(book_.begin(large, 20, 1).error().code, "too_many_steps");
  EXPECT_TRUE(book_.begin(large, 18, 1));
}

TEST_F(Book, ItIsCompleteWhenAllPiecesOfAllRanksCame) {
  const std::string id = (*book_.begin(training(), 20, 1))->id;
  ProfilePart one = part_of("a", id), two = one;
  one.pieces = two.pieces = 2;
  two.piece = 1;
  EXPECT_TRUE(book_.take_part("j1", one));
  EXPECT_TRUE(book_.take_part("j1", one)) << "sent again";
  EXPECT_TRUE(book_.take_part("j1", part_of("b", id)));
  EXPECT_FALSE(look(training(), 0));
  EXPECT_TRUE(book_.take_part("j1", two));
  EXPECT_TRUE(look(training(), 0));
  EXPECT_FALSE(book_.order_for("j1", 3)) << "nobody is to record any more";
  const auto work = book_.take_complete();
  ASSERT_EQ(work.size(), 1U);
  EXPECT_EQ(work[0].parts[0].pieces.size(), 2U);
  EXPECT_TRUE(book_.take_complete().empty());
  book_.merged("j1", id, std::make_shared<MergedProfile>());
  EXPECT_EQ(book_.find("j1")->state, Profile::State::kDone);
}

TEST_F(Book, PartsOfOthersAreRefused) {
  const std::string id = (*book_.begin(training(), 20, 1))->id;
  EXPECT_EQ(book_.take_part("j1", part_of("a", "p-of-before")).error().code, "stale_profile");
  EXPECT_EQ(book_.take_part("j2", part_of("a", id)).error().code, "stale_profile");
  ProfilePart earlier_life = part_of("a", id);
  earlier_life.incarnation = "a-0";
  EXPECT_THAT(book_.take_part("j1", earlier_life).error().detail, HasSubstr("no member of generation 3"));
  ProfilePart much = part_of("a", id);
  much.tracks[0].spans.resize(static_cast<size_t>(ProfileBook::kSpansOfRankMax + 20 * kSpansOfStepMax + 1));
  EXPECT_EQ(book_.take_part("j1", much).error().code, "bad_part");
}

TEST_F(Book, ALostRankIsNotWaitedFor) {
  const std::string id = (*book_.begin(training(), 20, 1))->id;
  EXPECT_TRUE(book_.take_part("j1", part_of("a", id)));
  lost_ = "b";
  EXPECT_TRUE(look(training(), 0));
  EXPECT_EQ(book_.find("j1")->ranks[1].missing, "b was lost while it recorded");
}

TEST_F(Book, ARankThatBringsNothingIsWaitedForAWhile) {
  book_.begin(training(), 20, 1);
  EXPECT_FALSE(look(training("j1", 37), 0));
  EXPECT_FALSE(look(training("j1", 37), 1'000'000)) << "its steps take as long as they take";
  EXPECT_FALSE(look(training("j1", 38), 1'000'000));
  EXPECT_FALSE(look(training("j1", 60), 1'000'000 + ProfileBook::kPatienceMs - 1));
  EXPECT_TRUE(look(training("j1", 60), 1'000'000 + ProfileBook::kPatienceMs));
  EXPECT_THAT(book_.find("j1")->ranks[0].missing, HasSubstr("after the last step was done; a worker of an older release"));
}

TEST_F(Book, ARankWhosePiecesComeSlowlyIsWaitedFor) {
  const std::string id = (*book_.begin(training(), 20, 1))->id;
  ProfilePart piece = part_of("a", id);
  piece.pieces = 3;
  EXPECT_TRUE(book_.take_part("j1", part_of("b", id)));
  EXPECT_FALSE(look(training("j1", 38), 0));
  for (piece.piece = 0; piece.piece < 2; ++piece.piece) {
    const int64_t now_ms = (1 + piece.piece) * (ProfileBook::kPatienceMs - 1);
    EXPECT_TRUE(book_.take_part("j1", piece));
    EXPECT_FALSE(look(training("j1", 50), now_ms));
  }
  EXPECT_TRUE(look(training("j1", 60), 3 * ProfileBook::kPatienceMs));
  EXPECT_EQ(book_.find("j1")->ranks[0].missing, "2 of 3 pieces came of a, and no more for 15 s");
}

TEST_F(Book, TheEndOfTheGenerationEndsIt) {
  book_.begin(training(), 20, 1);
  ProfiledJob next = training();
  next.generation = 4;
  EXPECT_FALSE(look(next, 0));
  EXPECT_TRUE(look(next, ProfileBook::kPatienceMs));
  EXPECT_THAT(book_.find("j1")->ranks[0].missing, HasSubstr("after generation 3 was over"));
}

TEST_F(Book, TheNewestFewAreKept) {
  for (int job = 1; job <= 4; ++job) ASSERT_TRUE(book_.begin(training(fmt::format("j{}", job)), 20, 1));
  EXPECT_EQ(book_.begin(training("j5"), 20, 1).error().code, "too_many_profiles");
  lost_ = "a";
  ProfiledJob over = training("j2");
  over.generation = 4;
  look(over, 0);
  look(over, ProfileBook::kPatienceMs);
  book_.take_complete();
  book_.merged("j2", book_.find("j2")->id, std::make_shared<MergedProfile>());
  EXPECT_TRUE(book_.begin(training("j5"), 20, 1));
  EXPECT_EQ(book_.find("j2"), nullptr) << "the oldest that had ended";
  EXPECT_NE(book_.find("j1"), nullptr);
}

}  // namespace
}  // namespace holdfast::rendezvous
