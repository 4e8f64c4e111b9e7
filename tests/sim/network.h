// The way between workers and the service: requests and answers that are late, lost, doubled or out of order.
#pragma once

#include <functional>

#include "tests/sim/chance.h"
#include "tests/sim/service_process.h"
#include "tests/sim/timeline.h"

namespace holdfast::sim {

class Host;
class Process;

// Of the whole network; a host's own cuts are its own.
struct Weather {
  int64_t lost_percent = 0, doubled_percent = 0, late_percent = 0;
  int64_t late_ms = 3000;  // at most
};

class Network {
 public:
  Network(Timeline& time, Chance& chance, ServiceProcess& service) : time_(time), chance_(chance), service_(service) {}

  Weather weather;

  // From a process; answered exactly once, by `unreachable` after `timeout_ms` at the latest.
  void ask(Process& process, Request request, int64_t timeout_ms, OnResponse on_response);
  // From a host's supervisor, best effort.
  void tell(Host& host, Request request);

 private:
  int64_t travel_ms(Host& host);
  void send(Host& host, Request request, const OnResponse& on_answer);

  Timeline& time_;
  Chance& chance_;
  ServiceProcess& service_;
};

}  // namespace holdfast::sim
