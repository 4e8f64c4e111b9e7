// Last-Event-ID makes the stream go on where it broke, so nothing is missed or told twice.
#include "ops/cli/jobs/event_feed.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast::ops {
namespace {

// The event that tells the reader that ids begin below the last one: the service's database was restored from an older copy.
Json word_of_older_database(const Json& event, int64_t last) {
  return {{"id", integer_at(event, "id")},
          {"time", text_at(event, "time")},
          {"kind", "database_older"},
          {"message", fmt::format("the service goes on with event {} after {}: its database was restored from an older copy",
                                  integer_at(event, "id"), last)}};
}

}  // namespace

std::vector<Json> events_after(Api& api, const std::string& job_id, int64_t after) {
  std::vector<Json> events;
  for (Json& event : api.list("/v1/jobs/" + job_id + "/events", "events")) {
    if (integer_at(event, "id") > after) events.push_back(std::move(event));
  }
  std::ranges::sort(events, {}, [](const Json& event) { return integer_at(event, "id"); });
  return events;
}

EventFeed::EventFeed(const Options& options, const std::string& job_id, bool from_the_beginning)
    : api_(options), stream_api_(options), job_id_(job_id) {
  if (!from_the_beginning) {
    const auto past = patiently([&] { return events_after(api_, job_id, 0); });
    if (!past.empty()) last_id_ = integer_at(past.back(), "id");
  }
  thread_ = std::thread([this] { follow(); });
}

EventFeed::~EventFeed() {
  stop();
}

void EventFeed::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  stream_api_.client().cancel();
  thread_.join();
}

bool EventFeed::stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void EventFeed::follow() {
  constexpr auto kBeforeAgain = std::chrono::milliseconds(500);
  while (!stopping()) {
    std::string last;
    {
      const std::lock_guard lock(mutex_);
      last = std::to_string(last_id_);
    }
    bool opening = true;
    // A stream that broke and a stream that ended are treated alike: a new one is opened from the last event on.
    (void)stream_api_.client().stream("/v1/jobs/" + job_id_ + "/events?follow=1", last,
                                      [&](const std::string&, const std::string&, const std::string& data) {
                                        Json event = Json::parse(data, nullptr, false);
                                        const std::lock_guard lock(mutex_);
                                        if (event.is_object()) {
                                          const int64_t id = integer_at(event, "id");
                                          if (opening && id <= last_id_)
                                            events_.push_back(word_of_older_database(event, last_id_));
                                          opening = false;
                                          last_id_ = id;
                                          events_.push_back(std::move(event));
                                          changed_.notify_all();
                                        }
                                        return !stopping_;
                                      });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kBeforeAgain, [this] { return stopping_; });
  }
}

std::vector<Json> EventFeed::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

void EventFeed::wait_until(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return !events_.empty(); });
}

std::vector<Json> EventFeed::take_rest() {
  stop();
  std::vector<Json> events = take();
  std::ranges::move(patiently([&] { return events_after(api_, job_id_, last_id_); }), std::back_inserter(events));
  return events;
}

}  // namespace holdfast::ops
