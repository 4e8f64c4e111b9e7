// Events and logs, past and as they come (-f).
//
// Promises: with -f every line is printed once and in order, also when the service is restarted meanwhile: the stream is opened
// again from the last id. Where the service was restored from an older copy its ids are below that one: this is said, and what
// it has is printed in its order.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/jobs/text.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

constexpr auto kBeforeAgain = std::chrono::milliseconds(500);
constexpr size_t kTailByServiceMax = 1000;  // rows of one answer
constexpr std::array kLevels = {"trace", "debug", "info", "warning", "error", "critical"};

struct FollowArguments {
  std::string job, worker, level;
  std::optional<size_t> tail;
  bool follow = false;
};

struct Line {
  std::string before, text;
  Style style = Style::kPlain;
};

// A list that can be followed: events or logs.
struct Kind {
  const char* name;  // of the list, and of the last part of its path
  Line (*line_of)(const Json& item);
  bool (*may_be_last)(const Json& item);  // the job has probably ended with it
};

std::ptrdiff_t rank_of(const std::string& level) {
  return std::ranges::find(kLevels, level) - kLevels.begin();
}

Line log_line(const Json& log) {
  const std::string level = text_at(log, "level");
  const Style style = level == "error" || level == "critical" ? Style::kBad
                      : level == "warning"                    ? Style::kPending
                                                              : Style::kPlain;
  return {fmt::format("{}  {:<10} {:<7} ", clock_text(text_at(log, "time")), text_at(log, "worker"), level),
          text_at(log, "text"), style};
}

Line line_of_event(const Json& event) {
  const std::string kind = text_at(event, "kind");
  const bool bad = kind == "job_failed" || kind == "worker_lost" || kind == "fault_reported";
  return {"", event_line(event), bad ? Style::kBad : kind == "job_succeeded" ? Style::kGood : Style::kPlain};
}

Line line_of_any_event(const Json& event) {
  const Line line = line_of_event(event);
  return {fmt::format("{:<6} ", text_at(event, "job", "-")), line.text, line.style};
}

bool ends_a_job(const Json& event) {
  const std::string kind = text_at(event, "kind");
  return kind == "job_succeeded" || kind == "job_failed" || kind == "job_cancelled";
}
bool never(const Json&) {
  return false;
}

constexpr Kind kLogs{"logs", log_line, never};
constexpr Kind kEvents{"events", line_of_event, ends_a_job};
constexpr Kind kAllEvents{"events", line_of_any_event, never};

class Follower {
 public:
  Follower(const Options& options, const FollowArguments& arguments, const Kind& kind, const std::string& job)
      : options_(options),
        arguments_(arguments),
        kind_(kind),
        job_(job),
        path_(job.empty() ? fmt::format("/v1/{}", kind.name) : fmt::format("/v1/jobs/{}/{}", job, kind.name)),
        api_(options),
        terminal_(terminal_width(STDOUT_FILENO) > 0),
        colour_(colour_wanted(STDOUT_FILENO)) {}

  void print_past() {
    const Json items = wanted_past();
    if (options_.json) return print_json({{kind_.name, items}, {"next_page_token", nullptr}});
    for (const Json& item : items) print(item);
  }

  void follow() {
    const bool ended = patiently([&] { return job_has_ended(); });
    if (ended || arguments_.tail) {
      for (const Json& item : patiently([&] { return wanted_past(); })) print(item);
    }
    if (ended) return;
    // The first request: a service that is not there ends the command here, one that goes away later is waited for.
    if (job_.empty() && !arguments_.tail) patiently([&] { return api_.get(path_with(path_, {{"limit", "1"}})); });
    while (!stream_until_it_ends()) std::this_thread::sleep_for(kBeforeAgain);
  }

 private:
  bool is_wanted(const Json& item) const {
    if (!arguments_.worker.empty() && text_at(item, "worker") != arguments_.worker) return false;
    return arguments_.level.empty() || rank_of(text_at(item, "level", "info")) >= rank_of(arguments_.level);
  }

  // Prints the wanted ones of the lines that exist already, and notes the last id: the stream goes on from there.
  Json wanted_past() {
    const bool unfiltered = arguments_.worker.empty() && arguments_.level.empty();
    const size_t tail = arguments_.tail.value_or(std::numeric_limits<size_t>::max());
    const bool by_service = &kind_ == &kLogs && unfiltered && tail <= kTailByServiceMax;
    const Json all = by_service
                         ? api_.get(path_with(path_, {{"tail", fmt::format("{}", std::max<size_t>(tail, 1))}}))[kind_.name]
                         : api_.list(path_, kind_.name);
    Json wanted = Json::array();
    for (const Json& item : all) {
      last_id_ = std::max(last_id_, integer_at(item, "id"));
      if (is_wanted(item)) wanted.push_back(item);
    }
    if (wanted.size() > tail) wanted.erase(wanted.begin(), wanted.end() - static_cast<std::ptrdiff_t>(tail));
    return wanted;
  }

  // Reads one stream from the last id on. Returns whether nothing more can come.
  bool stream_until_it_ends() {
    opening_ = true;
    const auto streamed = api_.client().stream(path_ + "?follow=1", fmt::format("{}", last_id_),
                                               [this](const std::string& id, const std::string&, const std::string& data) {
                                                 Json item = Json::parse(data, nullptr, false);
                                                 if (item.is_object() && !item.contains("id"))
                                                   item["id"] = std::atoll(id.c_str());
                                                 return !item.is_object() || take(item);
                                               });
    if (!streamed) {
      if (!is_away(streamed.error())) throw failure_of(streamed.error());
      note_away();
      return false;
    }
    try {
      if (job_.empty() || !job_has_ended()) return false;
      const Json rest = api_.list(path_, kind_.name, {{"after", fmt::format("{}", last_id_)}});
      opening_ = false;
      for (const Json& item : rest) {
        if (integer_at(item, "id") > last_id_) take(item);
      }
      return true;
    } catch (const Failure& failure) {
      if (failure.exit_code != kUnreachable && !failure.busy) throw;
      note_away();
      return false;
    }
  }

  static bool is_away(const rendezvous::HttpFailure& failure) {
    return failure.unreachable || failure.problem.status >= 500 || failure.problem.status == 429;
  }

  // Whether the stream shall go on after this item.
  bool take(const Json& item) {
    away_ = false;
    const int64_t id = integer_at(item, "id");
    if (opening_ && id <= last_id_) note_older_database(id, last_id_);
    opening_ = false;
    last_id_ = id;
    if (is_wanted(item)) print(item);
    return !kind_.may_be_last(item);
  }

  static void note_older_database(int64_t id, int64_t last) {
    fmt::print(stderr,
               "The service goes on with id {} after {}: its database was restored from an older copy. What follows is what it "
               "has now.\n",
               id, last);
  }

  void note_away() {
    if (!away_) fmt::print(stderr, "The service is away. Waiting for it to come back.\n");
    away_ = true;
  }

  bool job_has_ended() { return !job_.empty() && is_final(text_at(api_.get("/v1/jobs/" + job_), "state")); }

  void print(const Json& item) const {
    if (options_.json) {
      fmt::print("{}\n", rendezvous::json_text(item));
    } else {
      const Line line = kind_.line_of(item);
      fmt::print("{}{}\n", painted(line.before, Style::kFaint, colour_),
                 painted(terminal_ ? printable(line.text) : line.text, line.style, colour_));
    }
    std::fflush(stdout);
  }

  const Options& options_;
  const FollowArguments& arguments_;
  const Kind& kind_;
  const std::string job_, path_;  // no job: all events
  Api api_;
  const bool terminal_, colour_;
  int64_t last_id_ = 0;
  bool away_ = false, opening_ = false;  // opening_: a stream was asked for, and nothing has come of it yet
};

void run(const Options& options, const FollowArguments& arguments, const Kind& kind) {
  const std::string id = arguments.job.empty() ? "" : Api(options).job_id(arguments.job);
  Follower follower(options, arguments, id.empty() ? kAllEvents : kind, id);
  if (arguments.follow) return follower.follow();
  follower.print_past();
}

void add_common_options(CLI::App& command, FollowArguments& arguments) {
  command.add_flag("-f,--follow", arguments.follow, "Stay and print what comes; with --json one object a line");
  command.add_option("-n,--tail", arguments.tail, "Only the last so many lines, and with -f what comes after them")
      ->check(CLI::Range(0, 1'000'000'000))
      ->type_name("N");
  command.add_option("--worker", arguments.worker, "Only of this worker")->type_name("WORKER");
}

}  // namespace

void add_follow_commands(CLI::App& app, Options& options) {
  const auto of_logs = std::make_shared<FollowArguments>();
  CLI::App* logs = add_command(app, options, "logs", "What the job's workers logged",
                               "holdfast logs j1 -f --tail 20\n  holdfast logs j1 --level warning --worker node3");
  add_job_argument(*logs, of_logs->job);
  add_common_options(*logs, *of_logs);
  logs->add_option("--level", of_logs->level, "Only lines of this level and above")
      ->check(CLI::IsMember(std::vector<std::string>(kLevels.begin(), kLevels.end())))
      ->type_name("LEVEL");
  logs->callback([=, &options] { run(options, *of_logs, kLogs); });

  const auto of_events = std::make_shared<FollowArguments>();
  CLI::App* events = add_command(app, options, "events", "What happened to a job, or to all of them, and why",
                                 "holdfast events j1 -f\n  holdfast events -f");
  add_job_argument(*events, of_events->job)
      ->required(false)
      ->description("Job id or name; without one, what happened anywhere");
  add_common_options(*events, *of_events);
  events->callback([=, &options] { run(options, *of_events, kEvents); });
}

}  // namespace holdfast::ops
