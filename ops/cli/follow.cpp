// A job's events and logs, past and as they come (-f).
#include <fmt/format.h>

#include <cstdio>
#include <thread>

#include "ops/cli/api.h"
#include "ops/cli/command.h"
#include "ops/cli/event_feed.h"
#include "ops/cli/watch.h"

namespace holdfast::ops {
namespace {

struct FollowArguments {
  std::string job;
  bool follow = false;
};

bool ends_the_job(const Json& event) {
  const std::string kind = text_at(event, "kind");
  return kind == "job_succeeded" || kind == "job_failed" || kind == "job_cancelled";
}

std::string log_line(const Json& line) {
  const std::string time = text_at(line, "time");
  return fmt::format("{}  {:<10} {:<7} {}", time.size() >= 19 ? time.substr(11, 8) : time, text_at(line, "worker"),
                     text_at(line, "level"), text_at(line, "text"));
}

void print_item(const Options& options, const Json& item, std::string (*as_line)(const Json&)) {
  fmt::print("{}\n", options.json ? rendezvous::json_text(item) : as_line(item));
  std::fflush(stdout);
}

bool job_has_ended(Api& api, const std::string& id) {
  return is_final(text_at(api.get("/v1/jobs/" + id), "state"));
}

// Prints what is and what comes, until `last` says so or the stream of an ended job ends. A service that goes away is waited
// for.
void follow(const Options& options, const std::string& id, const char* what, std::string (*as_line)(const Json&),
            bool (*last)(const Json&)) {
  Api api(options);
  if (job_has_ended(api, id)) {
    for (const Json& item : api.list(fmt::format("/v1/jobs/{}/{}", id, what), what)) print_item(options, item, as_line);
    return;
  }
  std::string last_id = "0";
  for (bool done = false; !done;) {
    const auto streamed = api.client().stream(fmt::format("/v1/jobs/{}/{}?follow=1", id, what), last_id,
                                              [&](const std::string& event_id, const std::string&, const std::string& data) {
                                                const Json item = Json::parse(data, nullptr, false);
                                                if (!event_id.empty()) last_id = event_id;
                                                if (item.is_object()) print_item(options, item, as_line);
                                                done = item.is_object() && last(item);
                                                return !done;
                                              });
    if (!streamed && !streamed.error().unreachable) throw failure_of(streamed.error());
    if (done) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    try {
      done = job_has_ended(api, id) && streamed.has_value();
    } catch (const Failure& failure) {
      if (failure.exit_code != kUnreachable) throw;
    }
  }
}

void add_follow_command(CLI::App& app, Options& options, const char* name, const char* help,
                        std::string (*as_line)(const Json&), bool (*last)(const Json&)) {
  const auto arguments = std::make_shared<FollowArguments>();
  CLI::App* command = add_command(app, options, name, help, fmt::format("holdfast {} j1 -f", name));
  command->add_option("job", arguments->job, "Job id or name")->required();
  command->add_flag("-f,--follow", arguments->follow, "Stay and print what comes; with --json one object a line");
  command->callback([=, &options] {
    Api api(options);
    const std::string id = api.job_id(arguments->job);
    if (arguments->follow) return follow(options, id, name, as_line, last);
    const Json items = api.list(fmt::format("/v1/jobs/{}/{}", id, name), name);
    if (options.json) return print_json({{name, items}, {"next_page_token", nullptr}});
    for (const Json& item : items) print_item(options, item, as_line);
  });
}

}  // namespace

void add_follow_commands(CLI::App& app, Options& options) {
  add_follow_command(app, options, "logs", "What the job's workers logged", log_line, [](const Json&) { return false; });
  add_follow_command(app, options, "events", "What happened to a job, and why", event_line, ends_the_job);
}

}  // namespace holdfast::ops
