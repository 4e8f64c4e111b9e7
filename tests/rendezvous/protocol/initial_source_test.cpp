#include "rendezvous/protocol/initial_source.h"

#include <gtest/gtest.h>

namespace holdfast::rendezvous {
namespace {

TEST(InitialSource, APathMayNameAStep) {
  EXPECT_EQ(parse_initial_source("/models/gpt2"), (InitialSource{.path = "/models/gpt2", .job = "", .step = -1, .store = ""}));
  EXPECT_EQ(parse_initial_source("/c/j1@60"), (InitialSource{.path = "/c/j1", .job = "", .step = 60, .store = ""}));
  EXPECT_EQ(parse_initial_source("/c/a@b").path, "/c/a@b") << "no step";
}

TEST(InitialSource, AJobsCheckpointMayBeInAFolder) {
  EXPECT_EQ(parse_initial_source("job:j1"), (InitialSource{.path = "", .job = "j1", .step = -1, .store = ""}));
  EXPECT_EQ(parse_initial_source("job:j1@60 in /shared/my checkpoints"),
            (InitialSource{.path = "", .job = "j1", .step = 60, .store = "/shared/my checkpoints"}));
}

TEST(InitialSource, ItsTextIsParsedToTheSame) {
  for (const std::string text : {"/models/gpt2", "/c/j1@60", "job:j1", "job:j1@60", "job:j1@60 in file:///shared"})
    EXPECT_EQ(to_text(parse_initial_source(text)), text);
}

}  // namespace
}  // namespace holdfast::rendezvous
