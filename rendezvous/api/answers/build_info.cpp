#include "rendezvous/api/answers/build_info.h"

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

void write_build_info(PrometheusText& text, bool store_writable, const Leading& leading) {
  text.family("holdfast_build_info", "gauge", "1, with the version as a label.");
  text.sample({{"version", kHoldfastVersion}}, 1);
  text.family("holdfast_store_writable", "gauge", "1 where the database takes writes; 0 where the service waits for it.");
  text.sample(store_writable ? 1 : 0);
  text.family("holdfast_leads", "gauge", "1 where this service leads, or is the only one; 0 where it stands by.");
  text.sample(leading.leads ? 1 : 0);
  text.family("holdfast_term", "gauge", "The term of this service's leadership; 0 without one.");
  text.sample(static_cast<double>(leading.term));
}

}  // namespace holdfast::rendezvous
