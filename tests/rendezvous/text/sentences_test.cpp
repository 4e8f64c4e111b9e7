// Numbers and lists in sentences.
#include <gtest/gtest.h>

#include "rendezvous/text/list_in_words.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

TEST(Plural, OnlyOneIsSingular) {
  EXPECT_EQ(counted(0, "worker"), "0 workers");
  EXPECT_EQ(counted(1, "worker"), "1 worker");
  EXPECT_EQ(counted(2, "worker"), "2 workers");
  EXPECT_EQ(plural(1, "step"), "step");
  EXPECT_EQ(plural(3, "step"), "steps");
}

TEST(Plural, ANounMayHaveItsOwnPlural) {
  EXPECT_EQ(counted(1, "retry", "retries"), "1 retry");
  EXPECT_EQ(counted(2, "retry", "retries"), "2 retries");
}

TEST(ListInWords, TheLastTwoAreJoinedByAnd) {
  EXPECT_EQ(in_words({}), "");
  EXPECT_EQ(in_words({"w1"}), "w1");
  EXPECT_EQ(in_words({"w1", "w2"}), "w1 and w2");
  EXPECT_EQ(in_words({"w1", "w2", "w3"}), "w1, w2 and w3");
}

TEST(ListInWords, OfManyTheFirst32AreNamedAndTheOthersCounted) {
  const std::vector<std::string> names(40, "w");
  EXPECT_TRUE(in_words(names).ends_with("w, w and 8 more")) << in_words(names);
}

}  // namespace
}  // namespace holdfast::rendezvous
