#include "rendezvous/api/feeds/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/views.h"

namespace holdfast::rendezvous {
namespace {

// From the least to the worst. The stderr of a worker that died is shown at every level.
constexpr std::string_view kLogLevels[] = {"trace", "debug", "info", "warning", "error", "critical"};

// The level and all that are worse, in the form that LogQuery takes.
Outcome<std::string> levels_from(std::string level) {
  if (level.empty()) return "";
  if (level == "warn") level = "warning";
  const auto found = std::ranges::find(kLogLevels, level);
  if (found == std::end(kLogLevels)) {
    return tl::unexpected(bad_field(
        "level", fmt::format("must be trace, debug, info, warning, error or critical, not \"{}\"", level.substr(0, 40))));
  }
  std::string levels = " ";
  for (auto each = found; each != std::end(kLogLevels); ++each) levels += std::string(*each) + " ";
  return levels + std::string(kLastWordsLevel) + " ";
}

}  // namespace

FeedRows read_feed(JobStore& store, const FeedPlace& place, int64_t limit) {
  FeedRows found;
  found.read_to = place.after;
  if (place.feed == Feed::kLogs) {
    const LogPage page = store.records().logs({place.job, place.after, place.worker, place.levels}, limit);
    for (const LogRow& row : page.rows) found.rows.push_back({row.id, show_log(row)});
    found.read_to = page.read_to;
    found.more = page.more;
    found.looked_at = page.looked_at;
    return found;
  }
  if (place.feed == Feed::kEvents) {
    for (const EventRow& row : store.records().events(place.job, place.after, limit + 1))
      found.rows.push_back({row.id, show_event(row)});
  } else {
    for (const StepRow& row : store.records().steps(place.job, place.after, limit + 1))
      found.rows.push_back({row.id, show_step(row)});
  }
  found.more = static_cast<int64_t>(found.rows.size()) > limit;
  if (found.more) found.rows.pop_back();
  if (!found.rows.empty()) found.read_to = found.rows.back().id;
  found.looked_at = static_cast<int64_t>(found.rows.size());
  return found;
}

Outcome<FeedPlace> place_in_feed(JobStore& store, const HttpRequest& request, Feed feed, const std::string& job,
                                 int64_t after) {
  FeedPlace place{feed, job, after};
  if (feed != Feed::kLogs) {
    // A database that was restored from an older copy goes on with ids that the reader has seen already. So a place beyond the
    // newest row means the newest row. The store does the same for logs.
    const bool events = feed == Feed::kEvents;
    if (after > 0)
      place.after =
          std::min(after, events ? store.records().newest_event_id(place.job) : store.records().newest_step_id(place.job));
    return place;
  }
  const auto levels = levels_from(text_query(request, "level"));
  if (!levels) return tl::unexpected(levels.error());
  place.levels = *levels;
  place.worker = text_query(request, "worker");
  const auto tail = integer_query(request, "tail", 1, kPageRowsMax, 0);
  if (!tail) return tl::unexpected(tail.error());
  if (*tail > 0 && after == 0)
    place.after = store.records().before_newest_logs({place.job, 0, place.worker, place.levels}, *tail);
  return place;
}

}  // namespace holdfast::rendezvous
