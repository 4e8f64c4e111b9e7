// The service as this machine sees it: does it answer, to whom, at what time, and who works for it in which version.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>

#include "ops/cli/doctor/doctor.h"
#include "ops/cli/terminal/quantities.h"
#include "rendezvous/client/socket_address.h"
#include "rendezvous/client/url.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

using rendezvous::HttpClient;

constexpr int kProbes = 5;
constexpr double kSlowAnswer_s = 0.5;  // heartbeats come every second

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Of "Sun, 06 Nov 1994 08:49:37 GMT".
std::optional<double> seconds_of_date(const std::string& date) {
  std::tm parts{};
  const char* rest = strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (rest == nullptr) return std::nullopt;
  return static_cast<double>(timegm(&parts));
}

Json parsed(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  return json.is_object() ? json : Json::object();
}

struct Probes {
  std::vector<double> times_s;
  Check clock;
};

// The clock is read with the quickest answer. A Date has whole seconds, cut off: half of one is not known.
tl::expected<Probes, rendezvous::HttpFailure> probe(HttpClient& client, ServiceSeen& seen) {
  Probes probes;
  probes.clock = {"clocks", Verdict::kWarn, "the service's answers have no Date header", "compare `date -u` on all machines"};
  for (int i = 0; i < kProbes; ++i) {
    const double begin = seconds_since_1970();
    const auto reply = client.request("GET", "/healthz");
    const double end = seconds_since_1970();
    if (!reply) return tl::unexpected(reply.error());
    seen.version = text_at(parsed(reply->body), "version");
    const bool quickest = probes.times_s.empty() || end - begin < std::ranges::min(probes.times_s);
    probes.times_s.push_back(end - begin);
    if (const auto date = seconds_of_date(reply->date); date && quickest)
      probes.clock = judge_clock(*date + 0.5 - (begin + end) / 2, 0.5 + (end - begin) / 2);
  }
  return probes;
}

Check judge_answers(const HttpClient& client, const ServiceSeen& seen, std::vector<double> times_s) {
  if (seen.version.empty()) {
    return {"service", Verdict::kFail, fmt::format("{} answers, but not as a Holdfast service does", client.base_url()),
            "is --server right, and is a proxy in between?"};
  }
  std::ranges::sort(times_s);
  const double median_s = times_s[times_s.size() / 2];
  Check check{
      "service", Verdict::kOk,
      fmt::format("{} is ready; it answers in {} (median of {})", client.base_url(), seconds_text(median_s), times_s.size()),
      ""};
  if (median_s > kSlowAnswer_s) {
    check.verdict = Verdict::kWarn;
    check.remedy = "slow, where workers speak up every second: look at its machine's load and disk, and at the network";
  }
  return check;
}

// The verdict on a token by a service that has no /v1/whoami.
Check token_by_trying(HttpClient& client) {
  const auto jobs = client.request("GET", "/v1/jobs?limit=1");
  if (jobs) return {"token", Verdict::kOk, "of an administrator", ""};
  const auto& problem = jobs.error().problem;
  if (problem.status == 403)
    return {"token", Verdict::kOk, "of a worker: right for holdfast-worker, not for people's commands", ""};
  return {"token", Verdict::kFail, problem.detail, ""};
}

Check check_token(const Options& options, HttpClient& client) {
  if (token_of(options).empty()) {
    return {"token", Verdict::kFail, "none: neither --token, HOLDFAST_TOKEN nor admin.token in the data directory is there",
            "export HOLDFAST_TOKEN with one that `holdfast tokens create` made, or the service's admin.token"};
  }
  const auto who = client.request("GET", "/v1/whoami");
  if (!who && who.error().problem.status == 404) return token_by_trying(client);
  if (!who) return {"token", Verdict::kFail, who.error().message(), ""};
  const Json token = parsed(who->body).value("token", Json::object());
  const std::string role = text_at(token, "role");
  return {"token", Verdict::kOk,
          fmt::format("{}, role {}{}", text_at(token, "name", "unnamed"), role,
                      role == "worker" ? ": right for holdfast-worker, not for people's commands" : ""),
          ""};
}

}  // namespace

Check judge_clock(double ahead_s, double uncertain_s) {
  const std::string apart = fmt::format("the service's clock is {:.1f} s {} of this machine's (give or take {:.1f} s)",
                                        std::abs(ahead_s), ahead_s >= 0 ? "ahead" : "behind", uncertain_s);
  if (std::abs(ahead_s) <= kClocksApart_s)
    return {"clocks", Verdict::kOk, fmt::format("within {:.0f} s of the service's", kClocksApart_s), ""};
  return {"clocks", Verdict::kWarn, apart,
          "training does not mind, but times in events and logs, ages of checkpoints and tokens that expire do: run an NTP "
          "client on both (timedatectl says whether one does)"};
}

Check judge_versions(const std::string& service, const std::string& own, const Json& nodes) {
  std::map<std::string, std::string> others;  // version -> who
  int64_t workers = 0;
  if (service != own) others[service] = "the service";
  for (const Json& node : nodes) {
    if (text_at(node, "state") != "alive" && text_at(node, "state") != "draining") continue;
    ++workers;
    const std::string version = text_at(node, "version");
    if (version == own) continue;
    std::string& who = others[version];
    who += (who.empty() ? "" : ", ") + text_at(node, "id");
  }
  if (others.empty()) {
    return {"versions", Verdict::kOk,
            fmt::format("the service, this program{} are all {}",
                        workers == 0 ? "" : fmt::format(" and {}", rendezvous::counted(workers, "worker")), own),
            ""};
  }
  std::string differ;
  for (const auto& [version, who] : others) differ += fmt::format("; {} ({})", version, who);
  return {"versions", Verdict::kWarn, fmt::format("this program is {}{}", own, differ),
          "install the same release everywhere: the service first, then one worker after the other"};
}

std::vector<Check> check_service(const Options& options, ServiceSeen& seen) {
  HttpClient client(server_of(options), token_of(options));
  seen.host = rendezvous::host_of_url(client.base_url());
  seen.here = rendezvous::is_this_machine(seen.host);
  const auto probes = probe(client, seen);
  if (!probes) {
    return {{"service", Verdict::kFail, probes.error().message(),
             probes.error().problem.status == 503 ? "it is up but cannot work: its log says why"
             : seen.here
                 ? "look at its log: journalctl -u holdfast, or what it printed; then start it"
                 : "try `holdfast doctor` on its machine; then look for a firewall on the way, and for --listen 127.0.0.1"}};
  }
  Check answers = judge_answers(client, seen, probes->times_s);
  if (answers.verdict == Verdict::kFail) return {answers};
  if (const auto ready = client.request("GET", "/readyz"); !ready) {
    if (ready.error().problem.code != "not_leader")
      return {{"service", Verdict::kFail, ready.error().message(), "it is up but cannot work: its log says why"},
              probes->clock};
    answers = {"service", Verdict::kWarn, fmt::format("{}: {}", client.base_url(), ready.error().problem.detail),
               "it takes no changes: name all services in --server, as URL,URL"};
  }
  seen.answers = true;
  std::vector<Check> checks{answers, check_token(options, client), probes->clock};
  if (const auto nodes = client.request("GET", "/v1/nodes?limit=1000"); nodes)
    seen.nodes = parsed(nodes->body).value("nodes", Json::array());
  checks.push_back(judge_versions(seen.version, rendezvous::kHoldfastVersion, seen.nodes.value_or(Json::array())));
  return checks;
}

}  // namespace holdfast::ops
