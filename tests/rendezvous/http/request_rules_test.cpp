// Every bound on a request, without a socket.
#include "rendezvous/http/request_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/protocol/data_set.h"

namespace holdfast::rendezvous {
namespace {

using ::testing::HasSubstr;
using Headers = std::map<std::string, std::string>;

int refused(const tl::expected<HttpRequest, HttpResponse>& checked) {
  return checked ? 0 : checked.error().status;
}

TEST(PercentDecoding, DecodesAndRefusesBrokenEscapes) {
  EXPECT_EQ(percent_decoded("a%41%62%25c"), "aAb%c");
  EXPECT_EQ(percent_decoded("%E4%BD%A0"), "你");
  EXPECT_EQ(percent_decoded(""), "");
  for (const char* bad : {"%", "%4", "%zz", "%4g", "a%", "%-1", "% 1", "%00", "%0a", "%7f"}) {
    EXPECT_EQ(percent_decoded(bad), std::nullopt) << bad;
  }
}

TEST(RequestRules, ReadPathQueryAndHeaders) {
  const auto request = check_request("GET", "/v1/jobs/j%31", "limit=5&name=a%26b+c&flag&&empty=", {{"accept", "x"}});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->path, "/v1/jobs/j1");
  EXPECT_EQ(request->query, (Headers{{"limit", "5"}, {"name", "a&b c"}, {"flag", ""}, {"empty", ""}}));
  EXPECT_EQ(request->headers.at("accept"), "x");
}

TEST(RequestRules, BoundTheTarget) {
  EXPECT_EQ(refused(check_request("GET", "/" + std::string(kTargetBytesMax - 1, 'a'), "", {})), 0);
  EXPECT_EQ(refused(check_request("GET", "/" + std::string(kTargetBytesMax, 'a'), "", {})), 414);
  EXPECT_EQ(refused(check_request("GET", "/", std::string(kTargetBytesMax, 'a'), {})), 414);
}

TEST(RequestRules, BoundTheHeaders) {
  EXPECT_EQ(refused(check_request("GET", "/", "", {{"a", std::string(kHeaderBytesMax, 'x')}})), 431);
}

TEST(RequestRules, RefuseOtherMethodsWithAProblem) {
  for (const char* method : {"PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"}) {
    const auto checked = check_request(method, "/", "", {});
    ASSERT_EQ(refused(checked), 405) << method;
    EXPECT_EQ(checked.error().content_type, "application/problem+json");
    EXPECT_THAT(checked.error().body, HasSubstr(method));
    EXPECT_THAT(checked.error().headers.at("Allow"), HasSubstr("DELETE"));
  }
}

TEST(RequestRules, RefuseWrongEncoding) {
  EXPECT_EQ(refused(check_request("GET", "/a%zz", "", {})), 400);
  EXPECT_EQ(refused(check_request("GET", "/", "a=%0", {})), 400);
}

TEST(RequestRules, TheBodysLengthIsAnnouncedAndANumber) {
  HttpRequest request;
  EXPECT_EQ(announced_body(request), 0U);
  request.headers["content-length"] = "17";
  EXPECT_EQ(announced_body(request), 17U);
  for (const char* bad : {"", "-1", "+5", "1x", "0x10", "99999999999999999999999", "1, 1"}) {
    request.headers["content-length"] = bad;
    ASSERT_FALSE(announced_body(request)) << bad;
    EXPECT_EQ(announced_body(request).error().status, 400) << bad;
  }
  request.headers["transfer-encoding"] = "chunked";
  EXPECT_EQ(announced_body(request).error().status, 411);
}

TEST(RequestRules, OnlyObjectsAreLarge) {
  HttpServerOptions options;
  HttpRequest request;
  request.method = "PUT";
  request.path = "/v1/jobs/j1/objects/step-1/shard-0000.hfs";
  EXPECT_EQ(body_bound(request, options), options.max_object_bytes);
  request.path = "/v1/jobs/j1";
  EXPECT_EQ(body_bound(request, options), options.max_body_bytes);
  request.path = "/v1/jobs/j1/objects/a";
  request.method = "POST";
  EXPECT_EQ(body_bound(request, options), options.max_body_bytes);
}

TEST(RequestRules, ChunksAndManifestsOfDataSetsHaveBoundsOfTheirOwn) {
  const HttpServerOptions options;
  HttpRequest request;
  request.method = "PUT";
  request.path = "/v1/data/chunks/" + std::string(64, 'a');
  EXPECT_EQ(body_bound(request, options), static_cast<size_t>(kChunkBytes));
  request.path = "/v1/data/sets/wiki";
  EXPECT_EQ(body_bound(request, options), kManifestBytesMax);
  request.method = "POST";
  request.path = "/v1/data/missing";
  EXPECT_EQ(body_bound(request, options), options.max_body_bytes);
}

}  // namespace
}  // namespace holdfast::rendezvous
