#include "tests/sim/network.h"

#include <memory>
#include <utility>

#include "tests/sim/host.h"
#include "tests/sim/process.h"

namespace holdfast::sim {

// Late messages count as trouble of that host: it cannot be held to have answered in time.
int64_t Network::travel_ms(Host& host) {
  if (!chance_.percent(weather.late_percent)) return chance_.below(4);
  const int64_t ms = chance_.below(weather.late_ms);
  host.troubled_for(ms);
  return ms;
}

void Network::send(Host& host, Request request, const OnResponse& on_answer) {
  if (!host.sends() || chance_.percent(weather.lost_percent)) return host.troubled_for(0);
  const auto arrive = [this, &host, request, on_answer] {
    service_.take(request, [this, &host, on_answer](const Response& response) {
      if (!host.receives() || chance_.percent(weather.lost_percent)) return host.troubled_for(0);
      time_.after(travel_ms(host), [on_answer, response] { on_answer(response); });
    });
  };
  time_.after(travel_ms(host), arrive);
  if (!chance_.percent(weather.doubled_percent)) return;
  time_.after(chance_.below(weather.late_ms),
              [this, request = std::move(request)] { service_.take(request, [](const Response&) {}); });
}

void Network::ask(Process& process, Request request, int64_t timeout_ms, OnResponse on_response) {
  auto open = std::make_shared<OnResponse>(std::move(on_response));
  const auto close = [open](const Response& response) {
    if (*open) std::exchange(*open, nullptr)(response);
  };
  process.later(timeout_ms, [close] { close(Response::lost()); });
  send(process.host(), std::move(request),
       [&process, close](const Response& response) { process.run([close, response] { close(response); }); });
}

void Network::tell(Host& host, Request request) {
  send(host, std::move(request), [](const Response&) {});
}

}  // namespace holdfast::sim
