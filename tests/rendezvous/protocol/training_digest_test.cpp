#include "rendezvous/protocol/training_digest.h"

#include <gtest/gtest.h>

namespace holdfast::rendezvous {
namespace {

TEST(TrainingDigest, OfOneFileIsItsOwn) {
  EXPECT_EQ(to_text({{{"10-ab", ""}}, "", ""}), "10-ab");
  EXPECT_EQ(to_text({{{"10-ab", ""}}, "5-cd", ""}), "10-ab+5-cd");
  EXPECT_EQ(to_text({{{"10-ab", ""}}, "5-cd", "ef"}), "10-ab+5-cd+weights:ef");
}

TEST(TrainingDigest, OfAMixtureHasEachSourceWithItsShare) {
  EXPECT_EQ(to_text({{{"10-ab", "7"}, {"20-cd", "3"}}, "5-cd", ""}), "10-ab*7,20-cd*3+5-cd");
}

TEST(TrainingDigest, ItsOwnTextIsParsedToTheSame) {
  for (const char* text :
       {"d1", "10-ab+5-cd", "10-ab+weights:ef", "10-ab+5-cd+weights:ef", "10-ab*7,20-cd*3", "1-a*7,2-b*3,3-c*1+5-v+weights:w"})
    EXPECT_EQ(to_text(parse_training_digest(text)), text);
  const TrainingDigest digest = parse_training_digest("1-a*7,2-b*3+5-v+weights:w");
  EXPECT_EQ(digest, (TrainingDigest{{{"1-a", "7"}, {"2-b", "3"}}, "5-v", "w"}));
  EXPECT_EQ(parse_training_digest(""), TrainingDigest{});
}

}  // namespace
}  // namespace holdfast::rendezvous
