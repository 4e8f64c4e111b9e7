// The beginning of every answer of /metrics: the version, whether the database can be written, and by whom.
#pragma once

#include <cstdint>

#include "rendezvous/text/prometheus/prometheus_text.h"

namespace holdfast::rendezvous {

struct Leading {
  bool leads = true;
  int64_t term = 0;  // of this service's leadership; 0: it has none, or is the only service of its database
};
void write_build_info(PrometheusText& text, bool store_writable, const Leading& leading);

}  // namespace holdfast::rendezvous
