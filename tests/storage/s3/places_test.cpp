// Places as people write them, and files of credentials.
#include "storage/places/place.h"

#include <gmock/gmock.h>

#include "storage/open_store.h"
#include "storage/s3/answers.h"
#include "storage/s3/credentials.h"

namespace holdfast::storage::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Places, AreTakenApartAndPutTogether) {
  const auto place = parse_s3_place("s3://bucket/a/b/?endpoint=https://host:9000/&region=eu-1&style=host");
  ASSERT_TRUE(place) << place.error();
  EXPECT_EQ(*place, (S3Place{"bucket", "a/b", "https://host:9000", "eu-1", true}));
  EXPECT_EQ(to_text(*place), "s3://bucket/a/b?endpoint=https://host:9000&region=eu-1&style=host");
  EXPECT_EQ(parse_s3_place(to_text(*place)), *place);
  EXPECT_EQ(*parse_s3_place("s3://bucket"), (S3Place{"bucket", "", "", "", false}));
  EXPECT_EQ(parse_s3_place("s3://bucket/a+b~c:d%20ä/x")->prefix, "a+b~c:d%20ä/x") << "a prefix is what it is";
  EXPECT_EQ(parse_s3_place("s3://bucket?endpoint=http%3A%2F%2F[::1]:9000")->endpoint, "http://[::1]:9000");
}

TEST(Places, WithSecretsInThemAreRefusedAndTheSecretsAreNotRepeated) {
  for (const char* text :
       {"s3://AKIA:SECRET@bucket/a", "s3://bucket?endpoint=https://me:SECRET@host", "s3://bucket/a?X-Amz-Signature=SECRET",
        "s3://bucket?secret_key=SECRET&region=a", "s3://bucket?SECRET"}) {
    const auto place = parse_s3_place(text);
    ASSERT_FALSE(place) << text;
    EXPECT_THAT(place.error(), HasSubstr("never part of a place")) << text;
    EXPECT_THAT(place.error(), Not(HasSubstr("SECRET@"))) << text;
  }
}

TEST(Places, ThatAreNoneAreRefusedWithTheRightForm) {
  for (const char* text : {"s3://", "s3://b", "s3:///a", "s3://bucket//a", "s3://bucket/../a", "s3://bucket/a/.",
                           "s3://buc ket", "s3://bucket/a\nb", "s3://bucket?endpoint=host", "s3://bucket?endpoint=ftp://host",
                           "s3://bucket?endpoint=https://host/a?b", "s3://bucket?region=", "s3://bucket?style=both", "/a",
                           "s3://bucket?endpoint=https://host/a/../b"}) {
    EXPECT_FALSE(parse_s3_place(text)) << text;
  }
}

TEST(Places, OfAJobAreBelowThatOfAllJobs) {
  EXPECT_EQ(place_below("/shared", "j1"), "/shared/j1");
  EXPECT_EQ(place_below("s3://bucket?region=x", "j1"), "s3://bucket/j1?region=x");
  EXPECT_EQ(place_below("s3://bucket/a/?region=x", "j1"), "s3://bucket/a/j1?region=x");
}

TEST(Places, MayNameAStep) {
  using Split = std::pair<std::string, std::optional<int64_t>>;
  EXPECT_EQ(split_step("s3://bucket/a/j1@60?region=x", true), Split("s3://bucket/a/j1?region=x", 60));
  EXPECT_EQ(split_step("s3://bucket/a/j1?region=x@60", true), Split("s3://bucket/a/j1?region=x", 60));
  EXPECT_EQ(split_step("s3://bucket/a/j1/step-0000000060/?region=x", true), Split("s3://bucket/a/j1?region=x", 60));
  EXPECT_EQ(split_step("s3://bucket/a/j1@60", false), Split("s3://bucket/a/j1@60", std::nullopt));
  EXPECT_EQ(split_step("/a/j1", true), Split("/a/j1", std::nullopt));
  EXPECT_EQ(split_step("/a/j1/step-0000000060", true), Split("/a/j1", 60));
}

TEST(Places, InS3AreHeldToTheRootsOfTheirKind) {
  const std::vector<std::string> roots{"/shared", "s3://bucket/mine?endpoint=http://host"};
  const auto allowed = [&](const std::string& place) { return static_cast<bool>(check_roots(place, roots)); };
  EXPECT_TRUE(allowed("s3://bucket/mine?endpoint=http://host"));
  EXPECT_TRUE(allowed("s3://bucket/mine/j1?endpoint=http://host&region=x"));
  EXPECT_FALSE(allowed("s3://bucket/mine2?endpoint=http://host"));
  EXPECT_FALSE(allowed("s3://bucket?endpoint=http://host"));
  EXPECT_FALSE(allowed("s3://bucket/mine?endpoint=http://other"));
  EXPECT_FALSE(allowed("s3://other/mine?endpoint=http://host"));
  EXPECT_TRUE(allowed("/shared/a"));
  EXPECT_FALSE(allowed("/elsewhere"));
}

TEST(Credentials, AreFoundInFilesAsOthersWriteThem) {
  const std::string text =
      "# mine\n[default]\naws_access_key_id=A\n aws_secret = no\n[profile x]\nregion = eu-1 \ns3 =\n  region = no\n";
  EXPECT_EQ(ini_value(text, "default", "aws_access_key_id"), "A");
  EXPECT_EQ(ini_value(text, "profile x", "region"), "eu-1");
  EXPECT_EQ(ini_value(text, "default", "aws_secret"), std::nullopt);
  EXPECT_EQ(ini_value(text, "profile y", "region"), std::nullopt);
}

TEST(Answers, OfServersAreRead) {
  const auto list = parse_s3_list(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3\"><Name>b</Name><IsTruncated>true</IsTruncated><Contents>"
      "<Key>a&amp;b</Key><Size>1</Size></Contents><Contents><Key>c</Key></Contents><NextContinuationToken>t=</"
      "NextContinuationToken>"
      "</ListBucketResult>");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->keys, (std::vector<std::string>{"a&b", "c"}));
  EXPECT_EQ(list->next, "t=");
  EXPECT_FALSE(parse_s3_list("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")) << "it goes on: how?";
  EXPECT_FALSE(parse_s3_list("<ListBucketResult><Contents><Key>a</Key>"));
  EXPECT_FALSE(parse_s3_list("<html></html>"));
  EXPECT_FALSE(parse_s3_list(""));
  const S3Problem problem = parse_s3_problem("<Error><Code>SlowDown</Code><Message>later</Message></Error>");
  EXPECT_EQ(problem.code + problem.message, "SlowDownlater");
  EXPECT_EQ(parse_s3_problem("not found").code, "");
}

}  // namespace
}  // namespace holdfast::storage::testing
