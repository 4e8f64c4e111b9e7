#include "worker/sharding/magnitude_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace holdfast::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<uint16_t> copy_of(std::initializer_list<std::pair<uint16_t, size_t>> counts) {
  std::vector<uint16_t> copy;
  for (const auto& [bits, count] : counts) copy.insert(copy.end(), count, bits);
  return copy;
}

TEST(MagnitudeGroups, LargeMagnitudesComeFirstWhateverTheirSign) {
  const MagnitudeGroups groups(copy_of({{0x0000, 5}, {0x3f80, 3}, {0xff80, 2}, {0xbf81, 4}}), 1);
  EXPECT_THAT(groups.sizes, ElementsAre(2, 7, 5));
  EXPECT_EQ(groups.first[0xff], 0u);
  EXPECT_EQ(groups.first[0x7f], 2u);
  EXPECT_EQ(groups.first[0x00], 9u);
}

TEST(MagnitudeGroups, ClassesAreJoinedUntilAGroupIsLargeEnough) {
  EXPECT_THAT(MagnitudeGroups(copy_of({{0x4000, 60}, {0x3f80, 50}, {0x3f00, 99}, {0x3e80, 1}}), 100).sizes,
              ElementsAre(110, 100));
}

TEST(MagnitudeGroups, TheLastGroupHasWhatRemains) {
  EXPECT_THAT(MagnitudeGroups(copy_of({{0x4000, 100}, {0x3f80, 100}, {0x3f00, 99}}), 100).sizes, ElementsAre(100, 199));
}

TEST(MagnitudeGroups, FewElementsAreOneGroup) {
  EXPECT_THAT(MagnitudeGroups(copy_of({{0x4000, 3}, {0x0000, 2}}), 100).sizes, ElementsAre(5));
  EXPECT_THAT(MagnitudeGroups(copy_of({{0x4000, 1}}), 100).sizes, ElementsAre(1));
  EXPECT_THAT(MagnitudeGroups({}, 100).sizes, IsEmpty());
}

TEST(MagnitudeGroups, GroupsPartitionTheCopyOfEveryPattern) {
  std::vector<uint16_t> copy(0x10000);
  std::iota(copy.begin(), copy.end(), uint16_t{0});
  const MagnitudeGroups groups(copy, 1000);
  EXPECT_EQ(std::accumulate(groups.sizes.begin(), groups.sizes.end(), 0u), copy.size());
  EXPECT_THAT(groups.sizes, testing::Each(testing::Ge(1000u)));
}

}  // namespace
}  // namespace holdfast::worker
