#include "ops/cli/data/progress.h"

#include <fmt/format.h>

#include <utility>

#include "ops/cli/terminal/format.h"

namespace holdfast::ops {
namespace {

// "[####----] 42 %  1.2 GB of 2.8 GB"
std::string bytes_bar_text(int64_t bytes, int64_t in_all) {
  return fmt::format("{}  {} of {}", bar_text(bytes, in_all), bytes_text(static_cast<double>(bytes)),
                     bytes_text(static_cast<double>(in_all)));
}

// ", 35.0 MB/s, 46s left"; "" until there is a rate.
std::string rate_text_of(int64_t moved, int64_t left, double elapsed_s) {
  const double rate = elapsed_s > 0 ? static_cast<double>(moved) / elapsed_s : 0;
  if (elapsed_s < 1 || rate <= 0) return "";
  return fmt::format(", {}/s, {} left", bytes_text(rate), duration_text(static_cast<double>(left) / rate));
}

}  // namespace

std::string progress_text(const model::PrepareProgress& progress, double elapsed_s) {
  const char* doing = progress.pass == 1 ? "reading" : progress.skips ? "skipping" : "writing";
  return fmt::format("{} ({} of 2) {}", doing, progress.pass, bytes_bar_text(progress.bytes, progress.bytes_in_all)) +
         rate_text_of(progress.bytes, progress.bytes_in_all - progress.bytes, elapsed_s);
}

std::string progress_text(const PushProgress& progress, double elapsed_s) {
  return "pushing " + bytes_bar_text(progress.bytes, progress.bytes_in_all) +
         rate_text_of(progress.sent, progress.bytes_in_all - progress.bytes, elapsed_s);
}

void DataProgress::show(const model::PrepareProgress& progress) {
  if (std::exchange(pass_, progress.pass) != progress.pass) line_.begin_again();
  line_.draw([&](double elapsed_s) { return progress_text(progress, elapsed_s); });
}

void DataProgress::show(const PushProgress& progress) {
  line_.draw([&](double elapsed_s) { return progress_text(progress, elapsed_s); });
}

}  // namespace holdfast::ops
