// The hand-out: single words, and crowds of workers that fetch from the service and from each other, second by second.
#include "rendezvous/data_sets/hand_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr int64_t kRoom = 8;

std::vector<bool> bits_of(int64_t chunks, const std::vector<int64_t>& have) {
  std::vector<bool> bits(static_cast<size_t>(chunks));
  for (const int64_t chunk : have) bits[static_cast<size_t>(chunk)] = true;
  return bits;
}

HoldersRequest word_of(const std::string& worker, const std::vector<bool>& have, const std::string& life = "1") {
  return {worker, worker + "-" + life, worker + ":9", chunk_bits(have), {}, kRoom, "sha256//" + worker};
}

struct Said {
  std::string worker;
  std::vector<int64_t> have{}, first{};
  int64_t room = kRoom;
  std::string life = "1";
  bool gives = true;
};

class HandOutTest : public testing::Test {
 protected:
  std::vector<int64_t> says(const Said& said, int64_t now_ms = 0) {
    const auto have = bits_of(hand_out_.chunks(), said.have);
    HoldersRequest request = word_of(said.worker, have, said.life);
    request.first = said.first;
    request.room = said.room;
    if (!said.gives) request.address = "";
    return hand_out_.say(request, have, now_ms);
  }
  HandOut hand_out_{4};
};

TEST_F(HandOutTest, AChunkIsGivenOnce) {
  EXPECT_THAT(says({"w1"}), UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_THAT(says({"w2"}), IsEmpty());
  EXPECT_THAT(says({"w1"}, 1000), IsEmpty()) << "it is on its way";
}

TEST_F(HandOutTest, NoMoreThanThereIsRoomForAndTheFirstOnesFirst) {
  EXPECT_THAT(says({"w1", {}, {2}, 1}), ElementsAre(2));
  EXPECT_THAT(says({"w2", {}, {2, 1}, 1}), ElementsAre(1)) << "2 is on its way to w1";
  EXPECT_THAT(says({"w3", {}, {}, 0}), IsEmpty());
  EXPECT_THAT(says({"w3", {}, {3, 3}, 2}), UnorderedElementsAre(3, 0)) << "each once, though it was named twice";
}

TEST_F(HandOutTest, ChunksThatAWorkerHasAreNotGivenToIt) {
  EXPECT_THAT(says({"w1", {0, 1, 3}}), ElementsAre(2));
}

TEST_F(HandOutTest, ChunksThatAnotherHasComeFromThere) {
  says({"w1", {0, 1, 2}});
  EXPECT_THAT(says({"w2"}), IsEmpty()) << "3 went to w1";
  EXPECT_THAT(hand_out_.others_than("w2"), ElementsAre(Holder{"w1", "w1:9", "e", "sha256//w1"}));
}

TEST_F(HandOutTest, AWorkerThatCannotGiveIsNoHolder) {
  says({.worker = "w1", .have = {0, 1, 2, 3}, .gives = false});
  EXPECT_THAT(says({"w2"}), UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_THAT(hand_out_.others_than("w2"), IsEmpty());
}

TEST_F(HandOutTest, AChunkIsGivenAgainWhenTheWorkerThatTookItIsLate) {
  EXPECT_THAT(says({"w1"}), SizeIs(4));
  for (int64_t now_ms = 1000; now_ms < HandOut::kLateMs; now_ms += 1000) {
    EXPECT_THAT(says({"w1"}, now_ms), IsEmpty());
    EXPECT_THAT(says({"w2"}, now_ms), IsEmpty()) << now_ms;
  }
  says({"w1"}, HandOut::kLateMs - 1);
  EXPECT_THAT(says({"w2"}, HandOut::kLateMs), SizeIs(4));
}

TEST_F(HandOutTest, AChunkIsGivenAgainWhenTheWorkerThatTookItIsGone) {
  EXPECT_THAT(says({"w1"}), SizeIs(4));
  EXPECT_THAT(says({"w2"}, HandOut::kSilentMs - 1), IsEmpty());
  EXPECT_THAT(says({"w2"}, HandOut::kSilentMs), SizeIs(4)) << "w1 has said nothing for 5 s";
}

TEST_F(HandOutTest, AChunkIsGivenAgainWhenItsOnlyHolderIsGone) {
  says({"w1"});
  says({"w1", {0, 1, 2, 3}}, 1000);
  EXPECT_THAT(says({"w2"}, 1500), IsEmpty());
  hand_out_.forget("w1");
  EXPECT_THAT(says({"w2"}, 1600), SizeIs(4));
}

TEST_F(HandOutTest, TheLifeBeforeIsForgottenWithItsChunks) {
  EXPECT_THAT(says({"w1"}), SizeIs(4));
  EXPECT_THAT(says({.worker = "w1", .life = "2"}, 100), SizeIs(4));
  hand_out_.forget_if([](const std::string&, const std::string& incarnation) { return incarnation == "w1-2"; });
  EXPECT_TRUE(hand_out_.nobody_left());
}

TEST_F(HandOutTest, AHolderThatLosesAChunkIsBelieved) {
  says({"w1", {0, 1, 2, 3}});
  says({"w1", {0}}, 100);
  EXPECT_THAT(says({"w2"}, 200), IsEmpty()) << "1, 2 and 3 were given to w1 again";
  says({"w1", {0, 1, 2}}, 300);
  hand_out_.forget("w1");
  EXPECT_THAT(says({"w2"}, 400), SizeIs(4));
}

TEST(HandOutOrder, WorkersGetDifferentChunks) {
  HandOut hand_out(1000);
  std::set<int64_t> given;
  for (int worker = 0; worker < 10; ++worker) {
    const std::vector<bool> none(1000);
    for (const int64_t chunk : hand_out.say(word_of("w" + std::to_string(worker), none), none, 0)) given.insert(chunk);
  }
  EXPECT_THAT(given, SizeIs(10 * kRoom));
}

// Workers that fetch a data set: each second each says what it has, and gets a few chunks from the service and from others.
class Crowd {
 public:
  Crowd(int64_t chunks, int workers, uint32_t seed) : chunks_(chunks), hand_out_(chunks), random_(seed) {
    for (int i = 0; i < workers; ++i) join("w" + std::to_string(i));
  }

  struct Member {
    std::string name;
    std::vector<bool> have;
    std::set<int64_t> coming;  // from the service
    bool reaches_others = true, gives = true, frozen = false;
    bool is_full() const {
      return std::ranges::all_of(have, [](bool there) { return there; });
    }
  };

  Member& join(const std::string& name) {
    return members_.emplace_back(Member{name, std::vector<bool>(static_cast<size_t>(chunks_)), {}});
  }
  void second() {
    now_ms_ += 1000;
    for (Member& member : members_) {
      if (!member.frozen) speak(member);
    }
  }
  // False: some lack chunks after so many seconds.
  bool all_get_everything(int seconds) {
    while (seconds-- > 0 && !all_full()) second();
    return all_full();
  }
  bool all_full() const {
    return std::ranges::all_of(members_, [](const Member& member) { return member.frozen || member.is_full(); });
  }
  Member& member(size_t index) { return members_[index]; }
  void dies(size_t index) { members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(index)); }
  size_t size() const { return members_.size(); }
  int64_t sent() const { return sent_; }  // by the service

 private:
  void speak(Member& member) {
    for (const int64_t chunk : std::exchange(member.coming, {})) member.have[static_cast<size_t>(chunk)] = true;
    if (member.reaches_others) fetch_from_others(member);
    HoldersRequest request = word_of(member.name, member.have);
    if (!member.gives) request.address = "";
    for (const int64_t chunk : hand_out_.say(request, member.have, now_ms_)) {
      EXPECT_FALSE(member.have[static_cast<size_t>(chunk)]);
      member.coming.insert(chunk);
      ++sent_;
    }
  }
  void fetch_from_others(Member& member) {
    std::set<size_t> there;
    for (const Holder& other : hand_out_.others_than(member.name)) {
      const auto has = chunks_of_bits(other.have, chunks_);
      for (size_t chunk = 0; chunk < member.have.size(); ++chunk) {
        if ((*has)[chunk] && !member.have[chunk]) there.insert(chunk);
      }
    }
    std::vector<size_t> some;
    std::ranges::sample(there, std::back_inserter(some), kFetched, random_);
    for (const size_t chunk : some) member.have[chunk] = true;
  }

  static constexpr int kFetched = 6;  // a second
  const int64_t chunks_;
  HandOut hand_out_;
  std::mt19937 random_;
  std::vector<Member> members_;
  int64_t now_ms_ = 0, sent_ = 0;
};

class HandOutToACrowd : public testing::TestWithParam<uint32_t> {
 protected:
  int drawn(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  std::mt19937 random_{GetParam()};
};

TEST_P(HandOutToACrowd, AllGetEverythingAndTheServiceSendsEachChunkOnce) {
  const int64_t chunks = drawn(1, 300);
  Crowd crowd(chunks, drawn(1, 8), GetParam());
  ASSERT_TRUE(crowd.all_get_everything(1000));
  EXPECT_EQ(crowd.sent(), chunks);
}

TEST_P(HandOutToACrowd, LatecomersAreFedByTheOthers) {
  const int64_t chunks = drawn(1, 200);
  Crowd crowd(chunks, drawn(1, 4), GetParam());
  for (int i = drawn(0, 20); i > 0; --i) crowd.second();
  crowd.join("late");
  ASSERT_TRUE(crowd.all_get_everything(1000));
  EXPECT_EQ(crowd.sent(), chunks);
}

TEST_P(HandOutToACrowd, TheRestGetsEverythingWhenWorkersDie) {
  const int64_t chunks = drawn(20, 200);
  const int workers = drawn(3, 8);
  Crowd crowd(chunks, workers, GetParam());
  int deaths = 0;
  while (crowd.size() > 1 && !crowd.all_full()) {
    crowd.second();
    if (drawn(0, 5) != 0) continue;
    crowd.dies(static_cast<size_t>(drawn(0, static_cast<int>(crowd.size()) - 1)));
    ++deaths;
  }
  EXPECT_TRUE(crowd.all_get_everything(1000));
  EXPECT_LE(crowd.sent(), chunks * (1 + deaths)) << "a death costs no more than all that was there";
}

TEST_P(HandOutToACrowd, TheRestGetsEverythingWhenAWorkerFreezesWithChunksOnTheirWay) {
  Crowd crowd(100, 4, GetParam());
  for (int i = drawn(1, 5); i > 0; --i) crowd.second();
  crowd.member(0).frozen = true;
  EXPECT_TRUE(crowd.all_get_everything(1000));
}

TEST_P(HandOutToACrowd, NobodyStarvesWhereWorkersDoNotReachEachOther) {
  Crowd crowd(60, 3, GetParam());
  for (size_t i = 0; i < crowd.size(); ++i) crowd.member(i).reaches_others = false;
  EXPECT_TRUE(crowd.all_get_everything(200));
}

TEST_P(HandOutToACrowd, NobodyStarvesWhereNobodyGives) {
  Crowd crowd(60, 3, GetParam());
  for (size_t i = 0; i < crowd.size(); ++i) crowd.member(i).gives = crowd.member(i).reaches_others = false;
  ASSERT_TRUE(crowd.all_get_everything(200));
  EXPECT_EQ(crowd.sent(), 3 * 60);
}

TEST_P(HandOutToACrowd, AWorkerThatReachesNobodyIsFedByTheServiceAlone) {
  Crowd crowd(100, 4, GetParam());
  crowd.member(0).reaches_others = false;
  ASSERT_TRUE(crowd.all_get_everything(200));
  EXPECT_LE(crowd.sent(), 200) << "its own share and what it could not reach";
}

INSTANTIATE_TEST_SUITE_P(Seeds, HandOutToACrowd, testing::Range(1U, 26U));

}  // namespace
}  // namespace holdfast::rendezvous
