// Parts of URLs.
#include "rendezvous/client/url.h"

#include <gtest/gtest.h>

namespace holdfast::rendezvous {
namespace {

TEST(Url, IsTakenApartIntoOriginHostAndTarget) {
  const auto url = parse_url("https://hooks.example.org:8443/a/b?c=d&e");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->origin, "https://hooks.example.org:8443");
  EXPECT_EQ(url->host, "hooks.example.org");
  EXPECT_EQ(url->target, "/a/b?c=d&e");
}

TEST(Url, TheTargetBeginsWithASlashAndHasNoFragment) {
  EXPECT_EQ(parse_url("http://x")->target, "/");
  EXPECT_EQ(parse_url("http://x?key=1")->target, "/?key=1");
  EXPECT_EQ(parse_url("http://x/a#key")->target, "/a");
  EXPECT_EQ(parse_url("http://x/%41%2f")->target, "/%41%2f") << "nothing is decoded";
}

TEST(Url, OfAnotherFormOrSchemeIsRefused) {
  for (const char* text : {"", "10.0.0.1:7070", "ftp://x/", "file:///shared", "http://", "http://x:port", "http://x y"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
}

TEST(Url, AHostIsGivenWithoutPortAndBrackets) {
  EXPECT_EQ(host_of_url("http://10.0.0.1:7070"), "10.0.0.1");
  EXPECT_EQ(host_of_url("https://[fd00::1]:7070/x"), "fd00::1");
  EXPECT_EQ(host_of_url("https://trainer.lab/"), "trainer.lab");
  EXPECT_EQ(host_of_url("10.0.0.1:7070"), "");
}

TEST(Url, LoopbackIsKnownByItsName) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"}) EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const char* host : {"", "trainer.lab", "128.0.0.1", "fd00::1"}) EXPECT_FALSE(is_loopback_host(host)) << host;
}

}  // namespace
}  // namespace holdfast::rendezvous
