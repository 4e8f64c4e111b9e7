// Several services, asked one by one.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "ops/cli/doctor/doctor.h"
#include "rendezvous/client/servers.h"

namespace holdfast::ops {
namespace {

constexpr std::chrono::seconds kServicePatience{3};

double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

ServiceAsked ask(const std::string& url, const std::string& token) {
  ServiceAsked seen;
  seen.url = url;
  rendezvous::HttpClient client(url, token);
  const double begin = wall_clock_s();
  const auto reply = client.request("GET", "/healthz", {}, "application/json", kServicePatience);
  if (!reply) {
    seen.problem = reply.error().message();
    return seen;
  }
  const Json health = Json::parse(reply->body, nullptr, false);
  seen.status = text_at(health, "status", "unknown");
  seen.leader = text_at(health, "leader");
  seen.version = text_at(health, "version");
  std::tm parts{};
  if (strptime(reply->date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts) != nullptr)
    seen.ahead_s = static_cast<double>(timegm(&parts)) + 0.5 - (begin + wall_clock_s()) / 2;
  return seen;
}

}  // namespace

std::vector<Check> judge_services(const std::vector<ServiceAsked>& services) {
  std::string seen, silent;
  int leading = 0, answering = 0;
  std::optional<double> least, most;
  for (const ServiceAsked& service : services) {
    const bool leads = service.status == "ok";
    leading += leads ? 1 : 0;
    answering += service.status.empty() ? 0 : 1;
    seen += fmt::format("{}{} {}", seen.empty() ? "" : "; ", service.url,
                        leads                             ? "leads"
                        : service.status == "standing_by" ? "stands by"
                        : service.status.empty()          ? "does not answer"
                                                          : "waits for its database");
    if (service.status.empty()) silent += (silent.empty() ? "" : "; ") + service.problem;
    if (!service.ahead_s) continue;
    least = std::min(least.value_or(*service.ahead_s), *service.ahead_s);
    most = std::max(most.value_or(*service.ahead_s), *service.ahead_s);
  }
  std::vector<Check> checks;
  if (leading > 1) {
    checks.push_back({"services", Verdict::kFail, seen + ": they do not share one database",
                      "give all of them the same --store, or name one cluster's addresses in --server"});
  } else if (leading == 0) {
    checks.push_back({"services", Verdict::kFail, seen, "nobody leads: `holdfast doctor --store URL` looks at the database"});
  } else if (answering < static_cast<int>(services.size())) {
    checks.push_back({"services", Verdict::kWarn, seen, silent});
  } else {
    checks.push_back({"services", Verdict::kOk, seen, ""});
  }
  if (!least) return checks;
  const double apart_s = *most - *least;
  if (apart_s <= kClocksApart_s) {
    checks.push_back({"services' clocks", Verdict::kOk, fmt::format("within {:.0f} s of each other", kClocksApart_s), ""});
  } else {
    checks.push_back({"services' clocks", Verdict::kWarn, fmt::format("{:.1f} s apart (give or take half a second)", apart_s),
                      "who leads does not hang on it, but times in events and logs do: run an NTP client on each"});
  }
  return checks;
}

std::vector<Check> check_services(const Options& options) {
  const std::vector<std::string> urls = rendezvous::Servers::listed(server_of(options));
  if (urls.size() < 2) return {};
  std::vector<ServiceAsked> seen;
  for (const std::string& url : urls) seen.push_back(ask(url, token_of(options)));
  return judge_services(seen);
}

}  // namespace holdfast::ops
