// The ring as a worker on this machine would take part in it: where it would listen, whether it reaches the others.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>

#include "ops/cli/doctor/doctor.h"
#include "ops/cli/netcheck/exchange.h"
#include "ops/cli/terminal/quantities.h"
#include "rendezvous/client/socket_address.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

using rendezvous::SocketAddress;

constexpr std::chrono::seconds kReach{3};
constexpr int64_t kWorkersMax = 64;  // each is tried from a thread of its own
constexpr double kSlowLink = 100e6;  // bytes a second: less than 1 Gbit/s gives

std::string host_of(const SocketAddress& address) {
  const std::string text = address.text();
  return text.substr(0, text.rfind(':'));
}

std::string chosen_by(const DoctorArguments& arguments, const ServiceSeen& seen) {
  if (!arguments.interface.empty()) return "--interface names it";
  if (!rendezvous::interface_of_environment(seen.host).empty()) return "HOLDFAST_INTERFACE or NCCL_SOCKET_IFNAME names it";
  return fmt::format("the way to the service at {} leads through it", seen.host);
}

InterfaceSeen look_at(const SocketAddress& address, const std::string& why) {
  InterfaceSeen seen;
  seen.name = rendezvous::interface_with(address);
  seen.address = host_of(address);
  seen.chosen_by = why;
  seen.loopback = rendezvous::is_loopback(address);
  seen.of_containers = is_of_containers(seen.name);
  const std::string folder = "/sys/class/net/" + seen.name;
  std::error_code ignored;
  seen.wireless = std::filesystem::exists(folder + "/wireless", ignored);
  std::ifstream(folder + "/speed") >> seen.megabits;  // -1 or unreadable where there is none
  return seen;
}

std::string port_range() {
  int first = 0, last = 0;
  if (std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range"); file >> first >> last)
    return fmt::format("{} to {} (net.ipv4.ip_local_port_range)", first, last);
  return "that the system picks";
}

// Listens as a worker does and connects to it from here: what a firewall between machines does is not seen by that.
Check check_port(const SocketAddress& address) {
  HostPort where{host_of(address), "0"};
  if (where.host.starts_with('[')) where.host = where.host.substr(1, where.host.size() - 2);
  const auto listener = listen_on(where);
  if (!listener) return {"ring port", Verdict::kFail, listener.error(), "is there a policy that forbids to listen?"};
  const auto deadline = NetClock::now() + kReach;
  const auto own = parse_host_port(own_address(*listener));
  const auto connected = own ? connect_to(*own, deadline) : tl::unexpected(own.error());
  if (!connected) {
    return {"ring port", Verdict::kFail,
            fmt::format("{} listens and cannot be reached from here: {}", own_address(*listener), connected.error()),
            "a packet filter on this machine drops its own connections: `nft list ruleset` shows it"};
  }
  return {"ring port", Verdict::kOk,
          fmt::format("can listen at {}, on a port from {}: the other nodes must reach these", where.host, port_range()), ""};
}

std::string problem_reaching(const std::string& address) {
  const auto where = parse_host_port(address);
  if (!where) return where.error();
  const auto connected = connect_to(*where, NetClock::now() + kReach);
  return connected ? "" : connected.error();
}

std::vector<WorkerSeen> try_workers(const Json& nodes) {
  std::vector<WorkerSeen> workers;
  std::vector<std::future<std::string>> problems;
  for (const Json& node : nodes) {
    if (text_at(node, "state") != "alive" || static_cast<int64_t>(workers.size()) == kWorkersMax) continue;
    workers.push_back({text_at(node, "id"), text_at(node, "node"), text_at(node, "address"), ""});
    problems.push_back(std::async(std::launch::async, problem_reaching, workers.back().address));
  }
  for (size_t i = 0; i < workers.size(); ++i) workers[i].problem = problems[i].get();
  return workers;
}

Check check_link(const DoctorArguments& arguments) {
  const auto where = parse_host_port(arguments.peer);
  if (!where) return {"link", Verdict::kFail, where.error(), ""};
  const auto peer = connect_to(*where, NetClock::now() + kNetcheckConnect);
  const auto figures = peer ? ask_netcheck(*peer, arguments.seconds) : tl::unexpected(peer.error());
  if (!figures) {
    return {"link", Verdict::kFail, fmt::format("{}: {}", arguments.peer, figures.error()),
            fmt::format("on that node run: holdfast netcheck --listen 0.0.0.0:{}; then look for a firewall", where->port)};
  }
  const double link = std::min(figures->both_there, figures->both_back);
  Check check{
      "link", Verdict::kOk,
      fmt::format("{}: round trip {}, {} there, {} back, both at once {}", arguments.peer, seconds_text(figures->round_trip_s),
                  link_rate_text(figures->there), link_rate_text(figures->back), link_rate_text(link)),
      fmt::format("for the planner: holdfast plan --link_mb_s {:.4g} --rtt_ms {:.3g}", link / 1e6,
                  figures->round_trip_s * 1000)};
  if (slower_both_ways(*figures)) {
    check.verdict = Verdict::kWarn;
    check.remedy =
        "both directions at once are slower than each alone, and a ring uses both: look for a half-duplex port, Wi-Fi, "
        "or processors that do not keep up";
  } else if (link < kSlowLink) {
    check.verdict = Verdict::kWarn;
    check.remedy = "below what 1 Gbit/s gives: look at the negotiated speed (ethtool), cables and switch; " + check.remedy;
  }
  return check;
}

}  // namespace

bool is_of_containers(const std::string& interface_name) {
  static constexpr std::array kPrefixes{"docker", "podman", "virbr", "cni",  "flannel",
                                        "cali",   "lxcbr",  "lxdbr", "veth", "vnet"};
  // "br-" and a network's id in hex is docker's; "br0" and "br-lan" may well lead outside.
  const bool of_docker = interface_name.starts_with("br-") && interface_name.size() == 15 &&
                         std::ranges::all_of(interface_name.substr(3), [](unsigned char c) { return std::isxdigit(c) != 0; });
  return of_docker || std::ranges::any_of(kPrefixes, [&](const char* prefix) { return interface_name.starts_with(prefix); });
}

Check judge_interface(const InterfaceSeen& interface, bool service_is_here) {
  const std::string speed = interface.megabits > 0 ? fmt::format(", {} Mbit/s", interface.megabits) : "";
  Check check{"interface", Verdict::kOk,
              fmt::format("a worker here listens on {} at {}{}: {}", interface.name.empty() ? "an interface" : interface.name,
                          interface.address, speed, interface.chosen_by),
              ""};
  const char* const choose = "start workers with --interface NAME (`ip -br address` lists them) or HOLDFAST_INTERFACE";
  if (interface.loopback && service_is_here) {
    check.seen += "; workers on other machines would not reach it";
  } else if (interface.loopback || (interface.of_containers && !service_is_here)) {
    check.verdict = Verdict::kWarn;
    check.seen += "; the service is on another machine, and workers there would not reach this";
    check.remedy = choose;
  } else if (interface.wireless) {
    check.verdict = Verdict::kWarn;
    check.seen += "; that is Wi-Fi, and gradients go both ways at once";
    check.remedy = fmt::format("use a cable, and {}", choose);
  }
  return check;
}

Check judge_workers(const std::vector<WorkerSeen>& workers, const std::string& own_node) {
  if (workers.empty()) return {"workers", Verdict::kOk, "none are there yet: start holdfast-worker on each machine", ""};
  std::set<std::string> nodes;
  for (const WorkerSeen& worker : workers) nodes.insert(worker.node);
  std::string unreached, confined;
  for (const WorkerSeen& worker : workers) {
    const bool loopback = worker.address.starts_with("127.") || worker.address.starts_with("[::1]");
    std::string& list = loopback && nodes.size() > 1 ? confined : unreached;
    if (&list == &unreached && worker.problem.empty()) continue;
    list += fmt::format("{}{} on {}{}", list.empty() ? "" : "; ", worker.worker, worker.node,
                        &list == &confined ? " listens at " + worker.address : ": " + worker.problem);
  }
  if (!confined.empty()) {
    return {"workers", Verdict::kFail, confined + ", which only its own machine reaches",
            "start it with --interface NAME, or with the --server address that other machines use"};
  }
  if (!unreached.empty()) {
    // Only a node of the ring has to reach the others.
    return {"workers", nodes.contains(own_node) ? Verdict::kFail : Verdict::kWarn, "not reached from here: " + unreached,
            fmt::format("workers connect to each other: let TCP from all of them through to ports {} of each", port_range())};
  }
  return {"workers", Verdict::kOk,
          fmt::format("{} on {}: all of their ring ports are reached from here", workers.size(),
                      rendezvous::counted(nodes.size(), "node")),
          ""};
}

std::vector<Check> check_network(const DoctorArguments& arguments, const ServiceSeen& seen) {
  std::vector<Check> checks;
  const std::string named = arguments.interface.empty() ? rendezvous::interface_of_environment(seen.host) : arguments.interface;
  if (const auto address = rendezvous::ring_address(named, seen.host); address) {
    checks.push_back(judge_interface(look_at(*address, chosen_by(arguments, seen)), seen.here));
    checks.push_back(check_port(*address));
  } else {
    checks.push_back({"interface", Verdict::kFail, address.error(), "`ip -br address` lists the interfaces"});
  }
  if (seen.nodes) checks.push_back(judge_workers(try_workers(*seen.nodes), rendezvous::host_name("")));
  if (!arguments.peer.empty()) checks.push_back(check_link(arguments));
  return checks;
}

}  // namespace holdfast::ops
