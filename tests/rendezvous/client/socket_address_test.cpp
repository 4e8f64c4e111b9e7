#include "rendezvous/client/socket_address.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace holdfast::rendezvous {
namespace {

TEST(RingAddress, ReadsWhatItWrites) {
  for (const char* text : {"10.0.0.3:41234", "[fd00::3]:41234", "0.0.0.0:0"}) EXPECT_EQ(parse_address(text)->text(), text);
}

TEST(RingAddress, RefusesNamesAndNonsenseWithTheReason) {
  for (const char* text :
       {"", "10.0.0.3", "node3:41234", "10.0.0.3:99999", "10.0.0.3:-1", "fd00::3:41234", "[fd00::3:1", "10.0.0.3:1x"}) {
    const auto parsed = parse_address(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().find("expected a numeric \"host:port\""), std::string::npos);
  }
}

TEST(RingAddress, AServiceOnThisMachineIsReachedByLoopback) {
  const auto address = ring_address("", "127.0.0.1");
  ASSERT_TRUE(address) << address.error();
  EXPECT_EQ(address->text(), "127.0.0.1:0");
  EXPECT_EQ(interface_with(*address), "lo");
  EXPECT_EQ(ring_address("lo", "192.0.2.1")->text(), "127.0.0.1:0") << "an interface that is named wins";
}

TEST(RingAddress, AMissingInterfaceIsNamedWithTheExistingOnes) {
  const auto address = ring_address("nosuch0", "127.0.0.1");
  ASSERT_FALSE(address);
  EXPECT_NE(address.error().find("\"nosuch0\""), std::string::npos);
  EXPECT_NE(address.error().find("lo"), std::string::npos);
  EXPECT_EQ(interface_with(*parse_address("192.0.2.77:1")), "");
}

TEST(RingAddress, KnowsTheNamesAndAddressesOfThisMachine) {
  for (const char* here : {"127.0.0.1", "127.0.0.2", "localhost"}) EXPECT_TRUE(is_this_machine(here)) << here;
  for (const char* elsewhere : {"192.0.2.1", "not a host", ""}) EXPECT_FALSE(is_this_machine(elsewhere)) << elsewhere;
  EXPECT_TRUE(is_loopback(*parse_address("127.8.9.1:7")));
  EXPECT_TRUE(is_loopback(*parse_address("[::1]:7")));
  EXPECT_FALSE(is_loopback(*parse_address("128.0.0.1:7")));
  EXPECT_FALSE(is_loopback(*parse_address("[fd00::1]:7")));
}

TEST(RingAddress, OurVariableComesBeforeNccls) {
  unsetenv("HOLDFAST_INTERFACE");
  unsetenv("NCCL_SOCKET_IFNAME");
  EXPECT_EQ(interface_of_environment("127.0.0.1"), "");
  setenv("NCCL_SOCKET_IFNAME", "nccl0", 1);
  EXPECT_EQ(interface_of_environment("127.0.0.1"), "nccl0");
  setenv("HOLDFAST_INTERFACE", "ours0", 1);
  EXPECT_EQ(interface_of_environment("127.0.0.1"), "ours0");
  unsetenv("HOLDFAST_INTERFACE");
  setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
  EXPECT_EQ(interface_of_environment("127.0.0.1"), "lo");
  unsetenv("HOLDFAST_INTERFACE");
  unsetenv("NCCL_SOCKET_IFNAME");
}

TEST(RingAddress, NcclsFormsOfNamesChooseAsNcclDoes) {
  const std::vector<std::string> names = {"lo", "docker0", "eth0", "eth01", "eth1", "ib0"};
  const auto chosen = [&](const char* pattern, const char* routed = "eth1") {
    return interface_by_nccls_rule(pattern, names, routed);
  };
  EXPECT_EQ(chosen("ib"), "ib0") << "the beginning of a name";
  EXPECT_EQ(chosen("eth"), "eth1") << "of several the one that leads to the service";
  EXPECT_EQ(chosen("eth", "ib0"), "eth0") << "else the first";
  EXPECT_EQ(chosen("eth0"), "eth0") << "a whole name wins over names that begin so";
  EXPECT_EQ(chosen("=eth0", "eth01"), "eth0");
  EXPECT_EQ(chosen("=eth"), "") << "no name is just that";
  EXPECT_EQ(chosen("wlan,ib"), "ib0");
  EXPECT_EQ(chosen("^docker,eth"), "ib0") << "loopback only when nothing else is left";
  EXPECT_EQ(chosen("^=eth0,eth1", "eth1"), "docker0");
  EXPECT_EQ(chosen("^docker", "lo"), "lo") << "the service is on this machine";
  EXPECT_EQ(chosen("^docker,eth,ib,lo"), "");
  EXPECT_EQ(chosen("lo"), "lo");
}

}  // namespace
}  // namespace holdfast::rendezvous
