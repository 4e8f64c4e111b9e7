// The doctor's verdicts, and the whole examination with healthy and sick services.
#include "ops/cli/doctor/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "kernels/cpu/isa.h"
#include "ops/cli/netcheck/exchange.h"
#include "rendezvous/protocol/messages.h"
#include "tests/ops/cli/cli_runner.h"
#include "tests/ops/cli/fake_service.h"
#include "tests/rendezvous/client/raw_server.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Json node(const std::string& id, const Json& changes = Json::object()) {
  Json row = {{"id", id},
              {"node", "n-" + id},
              {"state", "alive"},
              {"address", "10.0.0.9:4000"},
              {"device", "cpu"},
              {"numerics", "cpu/avx2/products-3"},
              {"version", rendezvous::kHoldfastVersion}};
  row.update(changes);
  return row;
}

TEST(Doctor, ClocksMayBeTwoSecondsApart) {
  for (const double ahead : {0.0, 2.0, -2.0}) EXPECT_EQ(judge_clock(ahead, 0.5).verdict, Verdict::kOk) << ahead;
  const Check ahead = judge_clock(2.1, 0.5), behind = judge_clock(-86400, 0.5);
  EXPECT_EQ(ahead.verdict, Verdict::kWarn);
  EXPECT_THAT(ahead.seen, HasSubstr("2.1 s ahead of this machine's"));
  EXPECT_THAT(behind.seen, HasSubstr("86400.0 s behind"));
  EXPECT_THAT(behind.remedy, HasSubstr("NTP"));
}

TEST(Doctor, VersionsThatDifferAreNamedWithWhoHasThem) {
  const Json nodes = {node("a"), node("b", {{"version", "0.0.9"}}), node("gone", {{"version", "0.0.1"}, {"state", "lost"}})};
  const std::string own = rendezvous::kHoldfastVersion;
  const Check check = judge_versions(own, own, nodes);
  EXPECT_EQ(check.verdict, Verdict::kWarn);
  EXPECT_THAT(check.seen, HasSubstr("0.0.9 (b)"));
  EXPECT_THAT(check.seen, Not(HasSubstr("0.0.1"))) << "who is lost does not count";
  EXPECT_THAT(judge_versions("9.9", own, Json::array()).seen, HasSubstr("9.9 (the service)"));
  EXPECT_EQ(judge_versions(own, own, Json::array({node("a")})).verdict, Verdict::kOk);
}

TEST(Doctor, SlurmMustAnswerAndHaveANodeThatWorks) {
  const Check good = judge_slurm(0, "idle 2\nallocated 1\ndown* 1\n");
  EXPECT_EQ(good.verdict, Verdict::kOk);
  EXPECT_EQ(good.seen, "slurmctld answers; 4 nodes: 1 allocated, 1 down*, 2 idle");
  EXPECT_EQ(judge_slurm(0, "drained 1\n").verdict, Verdict::kWarn);
  const Check away = judge_slurm(1, "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n");
  EXPECT_EQ(away.verdict, Verdict::kFail);
  EXPECT_THAT(away.seen, HasSubstr("Unable to contact slurm controller"));
  EXPECT_THAT(away.remedy, HasSubstr("scontrol ping"));
  EXPECT_EQ(judge_munge(0, "STATUS: Success (0)").verdict, Verdict::kOk);
  EXPECT_THAT(judge_munge(6, "munge: Error: Failed to access \"/run/munge/munge.socket.2\"").seen,
              HasSubstr("Failed to access"));
}

TEST(Doctor, TheInterfaceMustBeOneThatOthersReach) {
  const InterfaceSeen lo{.name = "lo", .address = "127.0.0.1", .chosen_by = "the way", .loopback = true};
  EXPECT_EQ(judge_interface(lo, true).verdict, Verdict::kOk);
  EXPECT_THAT(judge_interface(lo, true).seen, HasSubstr("workers on other machines would not reach it"));
  EXPECT_EQ(judge_interface(lo, false).verdict, Verdict::kWarn);
  EXPECT_THAT(judge_interface(lo, false).remedy, HasSubstr("--interface"));
  const InterfaceSeen docker{.name = "docker0", .address = "172.17.0.1", .chosen_by = "the way", .of_containers = true};
  EXPECT_EQ(judge_interface(docker, false).verdict, Verdict::kWarn);
  const InterfaceSeen wifi{.name = "wlan0", .address = "10.0.0.4", .chosen_by = "the way", .wireless = true};
  EXPECT_EQ(judge_interface(wifi, false).verdict, Verdict::kWarn);
  const InterfaceSeen good{.name = "eth0", .address = "10.0.0.4", .chosen_by = "--interface names it", .megabits = 10000};
  EXPECT_EQ(judge_interface(good, false).verdict, Verdict::kOk);
  EXPECT_THAT(judge_interface(good, false).seen, HasSubstr("eth0 at 10.0.0.4, 10000 Mbit/s: --interface names it"));
}

TEST(Doctor, KnowsTheBridgesOfContainers) {
  for (const char* name : {"docker0", "br-0123456789ab", "virbr0", "cni0", "veth1234", "podman1"})
    EXPECT_TRUE(is_of_containers(name)) << name;
  for (const char* name : {"eth0", "br0", "br-lan", "bond0", "enp3s0", "ib0", "br-uplink-main"})
    EXPECT_FALSE(is_of_containers(name)) << name;
}

TEST(Doctor, UnreachableWorkersAreAFaultOnlyOnANodeOfTheRing) {
  const std::vector<WorkerSeen> some{{"a", "n1", "10.0.0.1:4000", ""}, {"b", "n2", "10.0.0.2:4000", "cannot connect: refused"}};
  EXPECT_EQ(judge_workers(some, "n1").verdict, Verdict::kFail);
  EXPECT_EQ(judge_workers(some, "laptop").verdict, Verdict::kWarn);
  EXPECT_THAT(judge_workers(some, "n1").seen, HasSubstr("b on n2: cannot connect: refused"));
  EXPECT_THAT(judge_workers(some, "n1").seen, Not(HasSubstr("a on n1")));
  const std::vector<WorkerSeen> hidden{{"a", "n1", "127.0.0.1:4000", ""}, {"b", "n2", "10.0.0.2:4000", ""}};
  EXPECT_EQ(judge_workers(hidden, "n1").verdict, Verdict::kFail) << "n2 does not reach a";
  EXPECT_THAT(judge_workers(hidden, "n1").seen, HasSubstr("a on n1 listens at 127.0.0.1:4000"));
  const std::vector<WorkerSeen> alone{{"a", "n1", "127.0.0.1:4000", ""}, {"b", "n1", "127.0.0.1:4001", ""}};
  EXPECT_EQ(judge_workers(alone, "n1").verdict, Verdict::kOk);
  EXPECT_EQ(judge_workers({}, "n1").verdict, Verdict::kOk);
}

TEST(Doctor, ADiskIsJudgedByRoomKindAndSyncs) {
  const DiskSeen good{.free_bytes = 400e9, .total_bytes = 1000e9, .filesystem = "", .sync_s = 0.002, .bytes_per_s = 500e6};
  const auto verdict = [](FolderUse use, const DiskSeen& disk) { return judge_disk(use, "/d", disk).verdict; };
  EXPECT_EQ(verdict(FolderUse::kData, good), Verdict::kOk);
  DiskSeen disk = good;
  disk.free_bytes = 50e6;
  EXPECT_EQ(verdict(FolderUse::kData, disk), Verdict::kFail);
  disk.free_bytes = 4e9;
  EXPECT_EQ(verdict(FolderUse::kData, disk), Verdict::kWarn);
  disk.total_bytes = 10e9;
  EXPECT_EQ(verdict(FolderUse::kData, disk), Verdict::kOk) << "a small disk with much of it free";
  disk = good;
  disk.sync_s = 0.2;
  EXPECT_EQ(verdict(FolderUse::kData, disk), Verdict::kWarn);
  for (const char* kind : {"nfs", "overlay", "tmpfs"}) {
    disk = good;
    disk.filesystem = kind;
    EXPECT_EQ(verdict(FolderUse::kData, disk), Verdict::kWarn) << kind;
    EXPECT_EQ(verdict(FolderUse::kCheckpoints, disk), kind == std::string("tmpfs") ? Verdict::kWarn : Verdict::kOk) << kind;
  }
}

TEST(Doctor, AFolderIsWrittenToAndLeftAsItWas) {
  const fs::path folder = fs::temp_directory_path() / ("holdfast-doctor-" + std::to_string(getpid()));
  fs::create_directory(folder);
  const Check check = check_folder(FolderUse::kCheckpoints, "file://" + folder.string());
  EXPECT_THAT(check.seen, HasSubstr("until 4 KiB are durable"));
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(folder);
  EXPECT_EQ(check_folder(FolderUse::kCheckpoints, folder).verdict, Verdict::kFail);
  EXPECT_THAT(check_folder(FolderUse::kData, folder).remedy, HasSubstr("mounted"));
}

TEST(Doctor, WorkersWithOtherNumericsAreNamed) {
  const Json nodes = {node("same", {{"numerics", "cpu/amx/products-3"}}), node("other"),
                      node("gpu", {{"device", "hip"}, {"numerics", "hip/x"}})};
  const Check check = judge_processor("A CPU", "cpu/amx/products-3", 8, nodes);
  EXPECT_EQ(check.verdict, Verdict::kWarn);
  EXPECT_THAT(check.seen, HasSubstr("but other as cpu/avx2/products-3"));
  EXPECT_THAT(check.seen, Not(HasSubstr("gpu")));
  EXPECT_EQ(judge_processor("A CPU", "cpu/avx2/products-3", 8, Json::array({node("other")})).verdict, Verdict::kOk);
}

TEST(Doctor, SaysWhatSealsAnEncryptedRing) {
  EXPECT_EQ(
      judge_encryption(true, "mptcp").seen,
      "ring_tls would use AES-128-GCM, for which the processor has instructions, in OpenSSL: the kernel has no TLS loaded");
  EXPECT_EQ(judge_encryption(false, "espintcp mptcp tls").seen,
            "ring_tls would use ChaCha20-Poly1305, in the kernel where OpenSSL hands it over");
}

// --- the whole command

class Examination : public ::testing::Test {
 protected:
  Examination() {
    service_.answer("GET /healthz", {{"status", "ok"}, {"version", rendezvous::kHoldfastVersion}});
    service_.answer("GET /readyz", {{"status", "ready"}});
    service_.answer("GET /v1/whoami", {{"token", {{"id", "t1"}, {"name", "ops"}, {"role", "admin"}}}});
    service_.answer("GET /v1/nodes", {{"nodes", Json::array()}, {"next_page_token", nullptr}});
    folder_ = fs::temp_directory_path() / ("holdfast-examination-" + std::to_string(getpid()));
    fs::create_directory(folder_);
    setenv("HOLDFAST_DATA_DIR", folder_.c_str(), 1);
  }
  ~Examination() override {
    unsetenv("HOLDFAST_DATA_DIR");
    fs::remove_all(folder_);
  }

  Said doctor(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"doctor", "--server", service_.url(), "--token", "secret"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return holdfast(arguments);
  }
  // The check `name` in the output of --json.
  static Json check_of(const Said& said, const std::string& name) {
    const Json all = Json::parse(said.out)["checks"];
    for (const Json& check : all) {
      if (check["check"] == name) return check;
    }
    ADD_FAILURE() << "no check " << name << " in " << all.dump(1);
    return {{"verdict", ""}, {"seen", ""}, {"remedy", ""}};
  }

  FakeService service_;
  fs::path folder_;
};

TEST_F(Examination, HasALineForEveryCheck) {
  const Said said = doctor();
  EXPECT_EQ(said.exit_code, 0) << said.out << said.err;
  for (const char* part :
       {"service          http://127.0.0.1:", "token            ops, role admin", "versions ",
        "interface        a worker here listens on lo", "ring port        can listen at 127.0.0.1",
        "workers          none are there yet", "data directory ", "limits ", "memory ", "processor ", "gpu ", " 0 FAIL\n"})
    EXPECT_THAT(said.out, HasSubstr(part));
}

TEST_F(Examination, WithoutAServiceFailsAndStillChecksTheMachine) {
  std::string nowhere;
  {
    const rendezvous::RawServer server([](rendezvous::RawConnection&) {});
    nowhere = server.url();
  }
  const Said said = holdfast({"doctor", "--server", nowhere, "--token", "secret", "--json"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(Json::parse(said.out)["ok"], false);
  EXPECT_EQ(check_of(said, "service")["verdict"], "FAIL");
  EXPECT_THAT(check_of(said, "service")["remedy"].get<std::string>(), HasSubstr("look at its log"));
  EXPECT_EQ(check_of(said, "ring port")["verdict"], "ok");
  check_of(said, "memory");
}

TEST_F(Examination, ATokenOfAnotherServiceFails) {
  FakeService strict;
  strict.answer("GET /healthz", {{"version", rendezvous::kHoldfastVersion}});
  strict.answer("GET /readyz", {{"status", "ready"}});
  strict.problem("GET /v1/whoami", 401, "this token is not one of this service's");
  const Said said = holdfast({"doctor", "--server", strict.url(), "--token", "secret", "--json"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(check_of(said, "token")["verdict"], "FAIL");
  EXPECT_THAT(check_of(said, "token")["seen"].get<std::string>(), HasSubstr("is not one of this service's"));
  EXPECT_THAT(said.out, Not(HasSubstr("secret"))) << "it is not repeated";
}

TEST_F(Examination, AServiceThatIsNotReadySaysWhy) {
  FakeService sick;
  sick.answer("GET /healthz", {{"version", rendezvous::kHoldfastVersion}});
  sick.problem("GET /readyz", 503, "the disk is full");
  const Said said = holdfast({"doctor", "--server", sick.url(), "--token", "secret", "--json"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(check_of(said, "service")["seen"].get<std::string>(), HasSubstr("the disk is full"));
}

TEST_F(Examination, AServiceThatAnswers503IsNotToldToStart) {
  FakeService full;
  full.problem("GET /healthz", 503, "database or disk is full");
  const Said said = holdfast({"doctor", "--server", full.url(), "--token", "secret", "--json"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(check_of(said, "service").dump(), HasSubstr("it is up but cannot work"));
  EXPECT_THAT(check_of(said, "service").dump(), Not(HasSubstr("start it")));
}

TEST_F(Examination, AnotherServerOnThePortIsReported) {
  FakeService other;
  other.answer_text("GET /healthz", "<html>It works!</html>");
  const Said said = holdfast({"doctor", "--server", other.url(), "--token", "secret", "--json"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(check_of(said, "service")["seen"].get<std::string>(), HasSubstr("not as a Holdfast service does"));
}

std::string date_of_now() {
  char now[64];
  const std::time_t time = std::time(nullptr);
  std::strftime(now, sizeof now, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", std::gmtime(&time));
  return now;
}

TEST_F(Examination, ReadsTheServicesClock) {
  const auto verdict_at = [](const std::function<std::string()>& date) {
    rendezvous::RawServer server([date](rendezvous::RawConnection& connection) {
      const std::string body = R"({"version":"0","status":"ok"})";
      while (!connection.read_request().empty()) {
        connection.write("HTTP/1.1 200 OK\r\n" + date() + "Content-Type: application/json\r\nContent-Length: " +
                         std::to_string(body.size()) + "\r\n\r\n" + body);
      }
    });
    const Said said = holdfast({"doctor", "--server", server.url(), "--token", "secret", "--json"});
    return check_of(said, "clocks");
  };
  EXPECT_EQ(verdict_at(date_of_now)["verdict"], "ok") << "if this machine did not stop for two seconds";
  EXPECT_THAT(verdict_at([] { return "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"; })["seen"].get<std::string>(),
              HasSubstr("s behind of this machine's"));
  EXPECT_EQ(verdict_at([] { return ""; })["verdict"], "warn");
  EXPECT_EQ(verdict_at([] { return "Date: yesterday\r\n"; })["verdict"], "warn");
}

TEST_F(Examination, TriesTheRingPortsOfTheWorkers) {
  const auto listener = listen_on({"127.0.0.1", "0"});
  // Bound, so that nobody else gets the port, and without a listener.
  const int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(bound, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(bound, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string refusing = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  char own[256] = {};
  gethostname(own, sizeof own - 1);
  FakeService service;
  service.answer("GET /healthz", {{"version", rendezvous::kHoldfastVersion}});
  service.answer("GET /readyz", {{"status", "ready"}});
  service.answer("GET /v1/whoami", {{"token", {{"name", "ops"}, {"role", "read"}}}});
  service.answer(
      "GET /v1/nodes",
      {{"nodes",
        {node("a", {{"node", own}, {"address", own_address(*listener)}}), node("b", {{"node", own}, {"address", refusing}})}}});
  const Said said = holdfast({"doctor", "--server", service.url(), "--token", "secret", "--json"});
  EXPECT_EQ(said.exit_code, 1);
  const std::string seen = check_of(said, "workers")["seen"];
  EXPECT_THAT(seen, HasSubstr("b on "));
  EXPECT_THAT(seen, Not(HasSubstr("a on ")));
  close(bound);
}

TEST_F(Examination, MeasuresTheLinkToANodeThatListens) {
  const auto listener = listen_on({"127.0.0.1", "0"});
  std::thread peer([&] {
    const auto asking = accept_from(*listener, NetClock::now() + std::chrono::seconds(20));
    if (asking) {
      EXPECT_TRUE(answer_netcheck(*asking).has_value());
    }
  });
  const Said said = doctor({"--peer", own_address(*listener), "--seconds", "0.1", "--json"});
  peer.join();
  EXPECT_THAT(check_of(said, "link")["seen"].get<std::string>(), HasSubstr("round trip"));
  std::string gone;
  {
    const auto other = listen_on({"127.0.0.1", "0"});
    gone = own_address(*other);
  }
  const Said failed = doctor({"--peer", gone, "--json"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(check_of(failed, "link")["remedy"].get<std::string>(), HasSubstr("holdfast netcheck --listen"));
}

TEST_F(Examination, ReadsTheTrainingFileAndFolders) {
  const fs::path file = folder_ / "train.bin";
  std::ofstream(file, std::ios::binary) << std::string("a\0b\0c\0", 6);
  const Said said = doctor({"--train_data_path", file, "--checkpoint_store", folder_, "--json"});
  EXPECT_EQ(said.exit_code, 0) << said.out;
  EXPECT_THAT(check_of(said, "training file")["seen"].get<std::string>(), HasSubstr("3 tokens, ids up to 99"));
  EXPECT_THAT(check_of(said, "checkpoints")["seen"].get<std::string>(), HasSubstr("free"));
  const Said without = doctor({"--train_data_path", folder_ / "none.bin", "--json"});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_EQ(check_of(without, "training file")["verdict"], "FAIL");
}

TEST_F(Examination, ReadsEachFileOfAMixture) {
  const fs::path file = folder_ / "train.bin";
  std::ofstream(file, std::ios::binary) << std::string("a\0b\0c\0", 6);
  const auto seen = [&](const std::string& text) {
    std::vector<std::string> all;
    const Json said = Json::parse(doctor({"--train_data_path", text, "--json"}).out);
    for (const Json& check : said["checks"]) {
      if (check["check"] == "training file")
        all.push_back(check["verdict"].get<std::string>() + " " + check["seen"].get<std::string>());
    }
    return all;
  };
  EXPECT_THAT(seen(file.string() + ":1,wiki:2," + (folder_ / "none.bin").string() + ":3"),
              ElementsAre(HasSubstr("ok " + file.string() + ": 3 tokens"),
                          "ok data:wiki/train.bin is in a data set, which workers fetch from the service", HasSubstr("FAIL ")));
  EXPECT_THAT(seen("wiki:1,code"), ElementsAre(HasSubstr("FAIL \"code\" has no weight")));
}

TEST_F(Examination, AMissingInterfaceFails) {
  const Said said = doctor({"--interface", "nosuch0", "--json"});
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_THAT(check_of(said, "interface")["seen"].get<std::string>(), HasSubstr("nosuch0"));
}

}  // namespace
}  // namespace holdfast::ops
