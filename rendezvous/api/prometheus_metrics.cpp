#include "rendezvous/api/prometheus_metrics.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "rendezvous/api/answers/build_info.h"
#include "rendezvous/api/answers/views.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr const char* kStates[] = {"queued", "running", "waiting", "paused", "succeeded", "failed", "cancelled"};
// Kinds of events that people watch. They are listed from the start with 0: a counter that first appears as 1 shows no
// increase.
constexpr const char* kWatchedKinds[] = {"checkpoint_copy_failed",
                                         "checkpoint_failed",
                                         "database_older",
                                         "fault_reported",
                                         "gpu_errors",
                                         "gpu_hot",
                                         "job_failed",
                                         "job_waiting",
                                         "scale_hook_failed",
                                         "state_diverged",
                                         "step_refused",
                                         "steps_voided",
                                         "straggler",
                                         "worker_lost"};
constexpr const char* kShownStates[] = {"alive", "draining", "lost", "left"};

// A field of a job that may be missing, null, or a text such as "nan".
std::optional<double> number_at(const Json& shown, const char* name) {
  const auto found = shown.find(name);
  return found == shown.end() || found->is_null() ? std::nullopt : number_from_json(*found);
}

struct JobFamily {
  const char *name, *type, *help;
  std::function<std::optional<double>(const Job& job, const Json& shown)> value;
};

std::optional<double> of_checkpoint(const Json& shown, const char* name) {
  const Json& checkpoint = shown.at("latest_checkpoint");
  return checkpoint.is_object() ? number_at(checkpoint, name) : std::nullopt;
}

const std::vector<JobFamily>& job_families() {
  const auto shown = [](const char* name) { return [name](const Job&, const Json& json) { return number_at(json, name); }; };
  static const std::vector<JobFamily> families = {
      {"holdfast_job_step", "gauge", "Steps that are committed.", shown("step")},
      {"holdfast_job_total_steps", "gauge", "Steps that the job is to do.", shown("total_steps")},
      {"holdfast_job_loss", "gauge", "Training loss of the newest step.", shown("loss")},
      {"holdfast_job_validation_loss", "gauge", "Loss of the newest evaluation.", shown("validation_loss")},
      {"holdfast_job_tokens_per_second", "gauge", "Tokens a second, while it runs.", shown("tokens_per_second")},
      {"holdfast_job_world_size", "gauge", "Workers that train it now.", shown("world_size")},
      {"holdfast_job_generation", "gauge", "The number of its membership; it only grows.", shown("generation")},
      {"holdfast_job_restarts_total", "counter", "Generations that ended by a fault.", shown("restarts")},
      {"holdfast_job_refused_steps_total", "counter", "Steps left out because their loss or gradient was not finite.",
       shown("refused_steps")},
      {"holdfast_job_eta_seconds", "gauge", "Seconds to its end at the present speed.", shown("eta_s")},
      {"holdfast_job_step_seconds", "gauge", "Seconds a step takes, smoothed.",
       [](const Job& job, const Json&) {
         return job.step_time.step_s > 0 ? std::optional(job.step_time.step_s) : std::nullopt;
       }},
      {"holdfast_job_communication_seconds", "gauge", "Seconds of it in which the training thread waited for others, smoothed.",
       [](const Job& job, const Json&) {
         return job.step_time.step_s > 0 ? std::optional(job.step_time.communication_s) : std::nullopt;
       }},
      {"holdfast_job_checkpoint_step", "gauge", "Step of the newest committed checkpoint.",
       [](const Job&, const Json& json) { return of_checkpoint(json, "step"); }},
      {"holdfast_job_checkpoint_age_seconds", "gauge", "Seconds since the newest checkpoint was committed.",
       [](const Job&, const Json& json) { return of_checkpoint(json, "age_s"); }},
      {"holdfast_job_checkpoint_copy_lag_steps", "gauge",
       "With checkpoint_copy: steps from the newest copy to the newest checkpoint.",
       [](const Job&, const Json& json) -> std::optional<double> {
         const Json& checkpoint = json.at("latest_checkpoint");
         if (!checkpoint.is_object() || !checkpoint.contains("copy")) return std::nullopt;
         const Json& copied = checkpoint.at("copy").at("step");
         return checkpoint.at("step").get<double>() - (copied.is_null() ? 0 : copied.get<double>());
       }},
  };
  return families;
}

void write_jobs(PrometheusText& text, const Coordinator& state) {
  std::map<std::string, int64_t> count;
  std::vector<std::pair<const Job*, Json>> active;
  for (const auto& [number, job] : state.jobs()) {
    ++count[job_state_name(job->membership->state)];
    if (!is_ended(job->membership->state)) active.emplace_back(job.get(), figures_of_job(state, *job));
  }
  text.family("holdfast_jobs", "gauge", "Jobs by state.");
  for (const char* name : kStates) text.sample({{"state", name}}, static_cast<double>(count[name]));
  for (const JobFamily& family : job_families()) {
    text.family(family.name, family.type, family.help);
    for (const auto& [job, shown] : active) {
      if (const auto value = family.value(*job, shown))
        text.sample({{"job", job->id}, {"name", job->membership->spec.name}}, *value);
    }
  }
}

void write_workers(PrometheusText& text, const Coordinator& state) {
  std::map<std::string, int64_t> count;
  std::vector<Json> alive;
  for (const auto& [id, worker] : state.workers()) {
    Json shown = show_worker(state, worker);
    ++count[shown.at("state")];
    if (worker.life == Worker::Life::kAlive) alive.push_back(std::move(shown));
  }
  text.family("holdfast_workers", "gauge", "Workers by state.");
  for (const char* name : kShownStates) text.sample({{"state", name}}, static_cast<double>(count[name]));
  const auto of_each = [&](const char* name, const char* help, const char* field) {
    text.family(name, "gauge", help);
    for (const Json& worker : alive)
      text.sample({{"worker", worker.at("id")}, {"node", worker.at("node")}}, number_at(worker, field).value_or(0));
  };
  of_each("holdfast_worker_last_seen_seconds", "Seconds since a live worker was heard of.", "last_seen_s");
  of_each("holdfast_worker_memory_bytes", "Memory of its device.", "memory_bytes");
  const auto of_loads = [&](const char* name, const char* help, const char* field) {
    text.family(name, "gauge", help);
    for (const Json& worker : alive) {
      const std::string job = worker.at("job").is_string() ? worker.at("job").get<std::string>() : "";
      if (const auto value = number_at(worker.at("load"), field))
        text.sample(
            {{"worker", worker.at("id")}, {"node", worker.at("node")}, {"device", worker.at("device")}, {"training", job}},
            *value);
    }
  };
  of_loads("holdfast_worker_busy_ratio", "How busy its device is, 0 to 1; on the CPU, its threads.", "busy");
  of_loads("holdfast_worker_memory_used_bytes", "Memory in use on its device; on the CPU, by its process.",
           "memory_used_bytes");
  of_loads("holdfast_worker_power_watts", "Power that its device draws.", "watts");
  of_loads("holdfast_worker_temperature_celsius", "Temperature of its device.", "celsius");
}

void write_scaling(PrometheusText& text, const Scaler& scaler) {
  if (!scaler.wanted()) return;
  text.family("holdfast_scale_hook_calls_total", "counter", "Calls of the scale hook that have ended, by how.");
  text.sample({{"outcome", "ok"}}, static_cast<double>(scaler.counts().well));
  text.sample({{"outcome", "failed"}}, static_cast<double>(scaler.counts().failed));
  text.family("holdfast_workers_missing", "gauge", "Workers that jobs wait for, as the scale hook is told.");
  text.sample(static_cast<double>(scaler.demand().missing));
  text.family("holdfast_workers_idle", "gauge", "Workers that have had no job for long, as the scale hook is told.");
  text.sample(static_cast<double>(scaler.demand().idle.size()));
}

void write_replication(PrometheusText& text, const DatabaseSeen& seen) {
  text.family(
      "holdfast_postgresql_replicas", "gauge",
      "Servers that follow PostgreSQL's, by whether each commit waits for them. With a database in a file there are none.");
  text.sample({{"synchronous", "yes"}}, static_cast<double>(seen.synchronous));
  text.sample({{"synchronous", "no"}}, static_cast<double>(seen.replicas - seen.synchronous));
  text.family("holdfast_postgresql_replication_lag_seconds", "gauge",
              "Age of what the replica that is furthest behind has replayed; 0 where none is.");
  text.sample(seen.lag_s.value_or(0));
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double bytes_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<double>(info.st_size) : 0;
}

}  // namespace

void PrometheusMetrics::get_prometheus(Call& call) {
  PrometheusText text;
  write_build_info(text, true, {.leads = true, .term = leadership_.term});
  write_jobs(text, turn_.state);
  write_workers(text, turn_.state);
  write_scaling(text, scaler_);
  serving_.add_metrics(text);
  write_replication(text, leadership_.seen ? leadership_.seen() : DatabaseSeen{});
  text.family("holdfast_http_requests_total", "counter", "Requests that were answered by a handler, by method and status.");
  for (const auto& [kind, count] : turn_.replies.counts())
    text.sample({{"method", kind.first}, {"status", std::to_string(kind.second)}}, static_cast<double>(count));
  text.family("holdfast_http_streams", "gauge", "Followers of events, logs and metrics.");
  text.sample(static_cast<double>(followers_.count()));
  text.family("holdfast_events_total", "counter", "Events since the service began, by kind.");
  auto event_counts = turn_.state.journal().event_counts();
  for (const char* kind : kWatchedKinds) event_counts.try_emplace(kind, 0);
  for (const auto& [kind, count] : event_counts) text.sample({{"kind", kind}}, static_cast<double>(count));
  text.family("holdfast_database_bytes", "gauge", "The database's file and its write-ahead log.");
  const std::string database = data_dir_ + "/holdfast.sqlite";
  text.sample(bytes_of(database) + bytes_of(database + "-wal"));
  text.family("holdfast_process_resident_bytes", "gauge", "Memory of the service's process.");
  text.sample(resident_bytes());
  text.family("holdfast_process_cpu_seconds_total", "counter", "Processor time of the service's process.");
  text.sample(cpu_seconds());
  if (http_counts_) {
    const HttpServerCounts counts = http_counts_();
    text.family("holdfast_http_connections", "gauge", "Connections that are open.");
    text.sample(static_cast<double>(counts.connections));
    text.family("holdfast_http_refused_connections_total", "counter",
                "Connections that were refused, for there were too many.");
    text.sample(static_cast<double>(counts.refused_connections));
  }
  HttpResponse response;
  response.content_type = kPrometheusType;
  response.body = text.text();
  call.answer(std::move(response));
}

}  // namespace holdfast::rendezvous
