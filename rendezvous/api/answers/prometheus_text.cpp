#include "rendezvous/api/answers/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {
namespace {

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void PrometheusText::sample(const Labels& labels, double value) {
  text_ += name_;
  for (size_t i = 0; i < labels.size(); ++i)
    text_ += fmt::format("{}{}=\"{}\"", i == 0 ? "{" : ",", labels[i].first, escaped(labels[i].second));
  text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", number(value));
}

void write_build_info(PrometheusText& text, bool store_writable) {
  text.family("holdfast_build_info", "gauge", "1, with the version as a label.");
  text.sample({{"version", kHoldfastVersion}}, 1);
  text.family("holdfast_store_writable", "gauge", "1 where the database takes writes; 0 where the service waits for it.");
  text.sample(store_writable ? 1 : 0);
}

}  // namespace holdfast::rendezvous
