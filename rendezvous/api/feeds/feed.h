// Feeds: the lists of a job that grow (events, logs, metrics), and places in them from which a reader goes on.
//
// Thread: the owner's.
#pragma once

#include <compare>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rendezvous/api/answers/problems.h"
#include "rendezvous/http/server.h"
#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

enum class Feed { kEvents, kLogs, kMetrics };

struct FeedPlace {
  Feed feed;
  std::string job;  // "": of all jobs
  int64_t after = 0;
  std::string worker = {}, levels = {};  // for logs, as in LogQuery
  auto operator<=>(const FeedPlace&) const = default;
};

struct FeedRow {
  int64_t id;
  nlohmann::json json;
};
struct FeedRows {
  std::vector<FeedRow> rows;
  int64_t read_to = 0;    // the place to read on from
  bool more = false;      // there are rows behind these
  int64_t looked_at = 0;  // rows the store read to find these; the cost
};
FeedRows read_feed(JobStore& store, const FeedPlace& place, int64_t limit);

// The place where the request asks to begin: after the row `after`, or with the newest lines (`tail`). The error names the
// query parameter that is wrong.
Outcome<FeedPlace> place_in_feed(JobStore& store, const HttpRequest& request, Feed feed, const std::string& job, int64_t after);

}  // namespace holdfast::rendezvous
