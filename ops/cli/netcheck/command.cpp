// `holdfast netcheck`: measures the network between two nodes, for `holdfast plan`. One node listens, the other asks.
#include "ops/cli/netcheck/exchange.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/quantities.h"
#include "rendezvous/client/socket_address.h"

namespace holdfast::ops {
namespace {

constexpr const char* kDefaultListen = "127.0.0.1:7071";
constexpr std::chrono::minutes kIdle{10};

struct NetcheckArguments {
  std::string address;
  bool listen = false;
  double seconds = 3;
};

HostPort host_port_of(const std::string& text) {
  auto parsed = parse_host_port(text);
  if (!parsed) throw Failure{kBadInput, parsed.error()};
  return *std::move(parsed);
}

void say_where(const Options& options, const std::string& address) {
  if (options.json) {
    fmt::print("{}\n", Json{{"listening", address}}.dump());
  } else {
    fmt::print("Listening on {} for `holdfast netcheck {}`; ends with Ctrl-C, or after {} minutes without a check.\n", address,
               address_from_elsewhere(address, rendezvous::host_name("THIS_NODE")), kIdle.count());
    if (const auto own = rendezvous::parse_address(address); own && rendezvous::is_loopback(*own)) {
      fmt::print(
          "Only this machine reaches that. For another node: holdfast netcheck --listen 0.0.0.0:7071 (anybody who reaches "
          "the port can then ask this node for zeros), and there: holdfast netcheck {}:7071\n",
          rendezvous::host_name("THIS_NODE"));
    }
  }
  std::fflush(stdout);
}

void listen(const Options& options, const std::string& address) {
  auto listener = listen_on(host_port_of(address.empty() ? kDefaultListen : address));
  if (!listener) throw Failure{kBadInput, listener.error()};
  say_where(options, own_address(*listener));
  for (auto deadline = NetClock::now() + kIdle; NetClock::now() < deadline;) {
    const auto peer = accept_from(*listener, deadline);
    if (!peer && NetClock::now() < deadline) throw Failure{kUnreachable, peer.error()};
    if (!peer) break;
    const std::string from = peers_address(*peer);
    const auto answered = answer_netcheck(*peer);
    if (answered) deadline = NetClock::now() + kIdle;
    if (!options.json) fmt::print("{}: {}\n", from, answered ? "checked" : answered.error());
    std::fflush(stdout);
  }
  if (!options.json) fmt::print("Nobody asked for {} minutes: done.\n", kIdle.count());
}

Json figures_json(const std::string& address, const NetcheckFigures& figures, double link) {
  return {{"address", address},
          {"round_trip_s", figures.round_trip_s},
          {"there_bytes_per_s", figures.there},
          {"back_bytes_per_s", figures.back},
          {"both_there_bytes_per_s", figures.both_there},
          {"both_back_bytes_per_s", figures.both_back},
          {"link_mb_s", link / 1e6},
          {"rtt_ms", figures.round_trip_s * 1000}};
}

void ask(const Options& options, const NetcheckArguments& arguments) {
  const HostPort where = host_port_of(arguments.address);
  const auto peer = connect_to(where, NetClock::now() + kNetcheckConnect);
  if (!peer) {
    throw Failure{kUnreachable,
                  fmt::format("{}. On that node run: holdfast netcheck --listen 0.0.0.0:{}", peer.error(), where.port)};
  }
  if (!options.json) fmt::print("Measuring, about {} s\n", std::llround(3 * arguments.seconds));
  std::fflush(stdout);
  const auto figures = ask_netcheck(*peer, arguments.seconds);
  if (!figures) throw Failure{kUnreachable, fmt::format("{}: {}", arguments.address, figures.error())};
  const double link = std::min(figures->both_there, figures->both_back);
  if (options.json) return print_json(figures_json(arguments.address, *figures, link));
  fmt::print("{:<14}{}\n{:<14}{}\n{:<14}{}\n", "round trip", seconds_text(figures->round_trip_s), "there",
             link_rate_text(figures->there), "back", link_rate_text(figures->back));
  fmt::print("{:<14}{} there, {} back\n", "both at once", link_rate_text(figures->both_there),
             link_rate_text(figures->both_back));
  if (slower_both_ways(*figures)) {
    fmt::print(
        "Both directions at once are slower than each alone, and a ring uses both: look for a half-duplex port, Wi-Fi, or "
        "processors that do not keep up.\n");
  }
  fmt::print("For the planner: holdfast plan --link_mb_s {:.4g} --rtt_ms {:.3g}\n", link / 1e6, figures->round_trip_s * 1000);
}

void netcheck(const Options& options, const NetcheckArguments& arguments) {
  if (!(arguments.seconds >= kNetcheckSecondsMin && arguments.seconds <= kNetcheckSecondsMax)) {  // not a number fails, too
    throw Failure{kBadInput, fmt::format("--seconds: {} is out of range: {} to {}", arguments.seconds, kNetcheckSecondsMin,
                                         kNetcheckSecondsMax)};
  }
  if (arguments.listen) return listen(options, arguments.address);
  if (arguments.address.empty()) {
    throw Failure{
        kBadInput,
        "which node? Run `holdfast netcheck --listen 0.0.0.0:7071` on one, and `holdfast netcheck THAT_NODE:7071` here"};
  }
  ask(options, arguments);
}

}  // namespace

void add_netcheck_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<NetcheckArguments>();
  CLI::App* command =
      add_local_command(app, options, "netcheck", "Measure the network between two nodes, for `holdfast plan`",
                        "holdfast netcheck 192.168.1.2:7071      # there: holdfast netcheck --listen 0.0.0.0:7071");
  command
      ->add_option("address", arguments->address,
                   fmt::format("Who listens; with --listen where to listen [{}]", kDefaultListen))
      ->type_name("HOST:PORT");
  command->add_flag("--listen", arguments->listen, "Wait for another node to ask");
  command->add_option("--seconds", arguments->seconds, "For each of three measurements: there, back, both at once")
      ->capture_default_str();
  command->callback([&options, arguments] { netcheck(options, *arguments); });
}

}  // namespace holdfast::ops
