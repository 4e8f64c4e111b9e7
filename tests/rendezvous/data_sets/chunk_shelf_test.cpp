// The chunks that are kept, counted, needed and given up.
#include "rendezvous/data_sets/chunk_shelf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rendezvous/data_sets/manifests.h"

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Put = ChunkShelf::Put;

class ChunkShelfTest : public testing::Test {
 protected:
  void keeps(const std::string& name, int64_t bytes, int64_t now_ms = 0) {
    ASSERT_EQ(shelf_.begin_put(name, bytes, 0), Put::kWrite);
    shelf_.put_ended(name, true, now_ms);
  }
  const std::string one_ = chunk_named("one"), two_ = chunk_named("two");
  ChunkShelf shelf_;
};

TEST_F(ChunkShelfTest, AChunkIsThereWhenItIsWrittenAndNotBefore) {
  EXPECT_EQ(shelf_.begin_put(one_, 3, 0), Put::kWrite);
  EXPECT_FALSE(shelf_.has(one_));
  shelf_.put_ended(one_, true, 0);
  EXPECT_TRUE(shelf_.has(one_));
  EXPECT_EQ(shelf_.begin_put(one_, 3, 0), Put::kThere);
}

TEST_F(ChunkShelfTest, AChunkThatCouldNotBeWrittenIsForgotten) {
  EXPECT_EQ(shelf_.begin_put(one_, 3, 0), Put::kWrite);
  EXPECT_EQ(shelf_.begin_put(one_, 3, 0), Put::kWrite) << "two who push the same";
  EXPECT_EQ(shelf_.bytes(), 3);
  shelf_.put_ended(one_, false, 0);
  shelf_.put_ended(one_, false, 0);
  EXPECT_EQ(shelf_.bytes(), 0);
  EXPECT_EQ(shelf_.size(), 0U);
}

TEST_F(ChunkShelfTest, TheLimitCountsWhatIsOnItsWay) {
  EXPECT_EQ(shelf_.begin_put(one_, 3, 5), Put::kWrite);
  EXPECT_EQ(shelf_.begin_put(two_, 3, 5), Put::kNoRoom);
  EXPECT_EQ(shelf_.begin_put(two_, 2, 5), Put::kWrite);
}

TEST_F(ChunkShelfTest, AChunkThatWasAnnouncedTooShortCountsAsItIs) {
  EXPECT_EQ(shelf_.begin_put(one_, 1, 5), Put::kWrite) << "whose bytes will turn out to be others";
  EXPECT_EQ(shelf_.begin_put(one_, 6, 5), Put::kNoRoom);
  EXPECT_EQ(shelf_.begin_put(one_, 4, 5), Put::kWrite);
  shelf_.put_ended(one_, false, 0);
  shelf_.put_ended(one_, true, 0);
  EXPECT_EQ(shelf_.bytes(), 4);
}

TEST_F(ChunkShelfTest, AChunkThatNobodyNeedsStaysForADay) {
  keeps(one_, 3, 1000);
  EXPECT_THAT(shelf_.stale(1000 + ChunkShelf::kKeptMs - 1), IsEmpty());
  EXPECT_THAT(shelf_.stale(1000 + ChunkShelf::kKeptMs), ElementsAre(one_));
  shelf_.touch(one_, 2000);
  EXPECT_THAT(shelf_.stale(1000 + ChunkShelf::kKeptMs), IsEmpty()) << "a push asked for it";
  shelf_.need(manifest_of({"one"}));
  EXPECT_THAT(shelf_.stale(2000 + ChunkShelf::kKeptMs), IsEmpty()) << "a data set needs it";
}

TEST_F(ChunkShelfTest, AChunkThatTwoDataSetsNeedGoesWithTheSecond) {
  keeps(one_, 3);
  keeps(two_, 3);
  shelf_.need(manifest_of({"one", "two"}));
  shelf_.need(manifest_of({"one"}));
  EXPECT_THAT(shelf_.release(manifest_of({"one", "two"}), 0), ElementsAre(two_));
  EXPECT_THAT(shelf_.release(manifest_of({"one"}), 0), ElementsAre(one_));
}

TEST_F(ChunkShelfTest, AChunkThatIsGoingIsNotThereAndComesBackOnlyAfterwards) {
  keeps(one_, 3);
  shelf_.give_up({one_});
  EXPECT_FALSE(shelf_.has(one_));
  EXPECT_EQ(shelf_.begin_put(one_, 3, 0), Put::kGoing);
  EXPECT_EQ(shelf_.bytes(), 3);
  shelf_.gone(one_);
  EXPECT_EQ(shelf_.bytes(), 0);
  EXPECT_EQ(shelf_.begin_put(one_, 3, 0), Put::kWrite);
}

TEST_F(ChunkShelfTest, AChunkThatIsBeingWrittenAgainIsNotGivenUp) {
  ASSERT_EQ(shelf_.begin_put(one_, 3, 0), Put::kWrite);
  ASSERT_EQ(shelf_.begin_put(one_, 3, 0), Put::kWrite);
  shelf_.put_ended(one_, true, 0);
  shelf_.need(manifest_of({"one"}));
  EXPECT_THAT(shelf_.release(manifest_of({"one"}), 0), IsEmpty());
  shelf_.put_ended(one_, true, 0);
  EXPECT_THAT(shelf_.stale(ChunkShelf::kKeptMs), ElementsAre(one_));
}

TEST_F(ChunkShelfTest, ALostChunkIsMissingAndStillNeeded) {
  keeps(one_, 3);
  shelf_.need(manifest_of({"one"}));
  shelf_.lost(one_);
  EXPECT_FALSE(shelf_.has(one_));
  EXPECT_EQ(shelf_.bytes(), 0);
  keeps(one_, 3);
  EXPECT_TRUE(shelf_.has(one_));
  EXPECT_EQ(shelf_.unneeded_bytes(), 0);
}

}  // namespace
}  // namespace holdfast::rendezvous
