#include "rendezvous/api/routes.h"

#include <algorithm>

#include "rendezvous/api/documents/page.h"
#include "rendezvous/api/parts.h"

namespace holdfast::rendezvous {
namespace {

template <auto part, auto verb>
void by(Parts& parts, Call& call) {
  ((parts.*part).*verb)(call);
}

template <void (*verb)(Call&)>
void by_itself(Parts&, Call& call) {
  verb(call);
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& parts,
             std::vector<std::string>& arguments) {
  arguments.clear();
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == "*" && parts.size() > i) {
      std::string rest = parts[i];
      for (size_t j = i + 1; j < parts.size(); ++j) rest += "/" + parts[j];
      arguments.push_back(rest);
      return true;
    }
    if (i >= parts.size()) return false;
    if (pattern[i] == "{}") {
      arguments.push_back(parts[i]);
    } else if (pattern[i] != parts[i]) {
      return false;
    }
  }
  return pattern.size() == parts.size();
}

}  // namespace

std::vector<Role> roles_of(Access access) {
  switch (access) {
    case Access::kNone:
      break;
    case Access::kAny:
      return {Role::kRead, Role::kSubmit, Role::kAdmin, Role::kWorker};
    case Access::kWorker:
      return {Role::kWorker, Role::kAdmin};
    case Access::kRead:
      return {Role::kRead, Role::kSubmit, Role::kAdmin};
    case Access::kSubmit:
      return {Role::kSubmit, Role::kAdmin};
    case Access::kAdmin:
      return {Role::kAdmin};
  }
  return {};
}

const std::vector<Route>& routes() {
  constexpr Access none = Access::kNone, any = Access::kAny, worker = Access::kWorker, read = Access::kRead,
                   submit = Access::kSubmit, admin = Access::kAdmin;
  static const std::vector<Route> kRoutes = {
      {"GET", {""}, none, by_itself<get_page>},
      {"GET", {"page", "{}"}, none, by_itself<get_page>},
      {"GET", {"playground"}, none, by_itself<get_playground>},
      {"GET", {"healthz"}, none, by<&Parts::probes, &Probes::get_healthz>},
      {"GET", {"readyz"}, none, by<&Parts::probes, &Probes::get_readyz>},
      {"GET", {"metrics"}, read, by<&Parts::prometheus, &PrometheusMetrics::get_prometheus>},
      {"GET", {"openapi.json"}, any, by<&Parts::probes, &Probes::get_openapi>},
      {"POST", {"v1", "workers"}, worker, by<&Parts::workers, &WorkersApi::post_worker>},
      {"POST", {"v1", "workers", "lost"}, worker, by<&Parts::workers, &WorkersApi::post_lost>},
      {"POST", {"v1", "workers", "{}", "status"}, worker, by<&Parts::workers, &WorkersApi::post_status>},
      {"GET", {"v1", "workers", "{}", "directive"}, worker, by<&Parts::workers, &WorkersApi::get_directive>},
      {"POST", {"v1", "workers", "{}", "texts"}, worker, by<&Parts::serving, &ServingApi::post_texts>},
      {"POST", {"v1", "workers", "{}", "logs"}, worker, by<&Parts::workers, &WorkersApi::post_worker_logs>},
      {"POST", {"v1", "jobs", "{}", "progress"}, worker, by<&Parts::workers, &WorkersApi::post_progress>},
      {"POST", {"v1", "jobs", "{}", "faults"}, worker, by<&Parts::workers, &WorkersApi::post_fault>},
      {"POST", {"v1", "jobs", "{}", "checkpoints"}, worker, by<&Parts::workers, &WorkersApi::post_checkpoint>},
      {"POST", {"v1", "jobs", "{}", "events"}, worker, by<&Parts::workers, &WorkersApi::post_job_event>},
      {"GET", {"v1", "jobs", "{}", "objects"}, any, by<&Parts::objects, &ObjectsApi::list_objects>},
      {"GET", {"v1", "jobs", "{}", "objects", "*"}, any, by<&Parts::objects, &ObjectsApi::get_object>},
      {"PUT", {"v1", "jobs", "{}", "objects", "*"}, worker, by<&Parts::objects, &ObjectsApi::put_object>},
      {"DELETE", {"v1", "jobs", "{}", "objects", "*"}, worker, by<&Parts::objects, &ObjectsApi::delete_object>},
      {"POST", {"v1", "data", "missing"}, submit, by<&Parts::data_chunks, &DataChunksApi::post_missing>},
      {"GET", {"v1", "data", "chunks", "{}"}, any, by<&Parts::data_chunks, &DataChunksApi::get_chunk>},
      {"PUT", {"v1", "data", "chunks", "{}"}, submit, by<&Parts::data_chunks, &DataChunksApi::put_chunk>},
      {"GET", {"v1", "data", "sets"}, read, by<&Parts::data_sets, &DataSetsApi::get_sets>},
      {"GET", {"v1", "data", "sets", "{}"}, any, by<&Parts::data_sets, &DataSetsApi::get_set>},
      {"PUT", {"v1", "data", "sets", "{}"}, submit, by<&Parts::data_sets, &DataSetsApi::put_set>},
      {"DELETE", {"v1", "data", "sets", "{}"}, submit, by<&Parts::data_sets, &DataSetsApi::delete_set>},
      {"POST", {"v1", "data", "sets", "{}", "holders"}, worker, by<&Parts::data_holders, &DataHoldersApi::post_holders>},
      {"POST", {"v1", "jobs"}, submit, by<&Parts::submissions, &Submissions::post_job>},
      {"GET", {"v1", "jobs"}, read, by<&Parts::jobs, &JobsApi::get_jobs>},
      {"GET", {"v1", "job_spec"}, read, by<&Parts::jobs, &JobsApi::get_job_spec>},
      {"POST", {"v1", "plan"}, read, by<&Parts::plans, &PlansApi::post_plan>},
      {"GET", {"v1", "jobs", "{}"}, read, by<&Parts::jobs, &JobsApi::get_job>},
      {"POST", {"v1", "jobs", "{}", "stop"}, submit, by<&Parts::jobs, &JobsApi::post_stop>},
      {"POST", {"v1", "jobs", "{}", "pause"}, submit, by<&Parts::jobs, &JobsApi::post_pause>},
      {"POST", {"v1", "jobs", "{}", "resume"}, submit, by<&Parts::jobs, &JobsApi::post_resume>},
      {"POST", {"v1", "jobs", "{}", "scale"}, submit, by<&Parts::jobs, &JobsApi::post_scale>},
      {"POST", {"v1", "jobs", "{}", "profile"}, submit, by<&Parts::profiles, &ProfilesApi::post_profile>},
      {"GET", {"v1", "jobs", "{}", "profile"}, read, by<&Parts::profiles, &ProfilesApi::get_profile>},
      {"GET", {"v1", "jobs", "{}", "profile", "trace"}, read, by<&Parts::profiles, &ProfilesApi::get_trace>},
      {"POST", {"v1", "jobs", "{}", "profile", "parts"}, worker, by<&Parts::profiles, &ProfilesApi::post_part>},
      {"GET", {"v1", "jobs", "{}", "events"}, read, by<&Parts::lists, &ListsApi::get_events>},
      {"GET", {"v1", "jobs", "{}", "logs"}, read, by<&Parts::lists, &ListsApi::get_logs>},
      {"GET", {"v1", "jobs", "{}", "metrics"}, read, by<&Parts::lists, &ListsApi::get_metrics>},
      {"GET", {"v1", "jobs", "{}", "checkpoints"}, read, by<&Parts::lists, &ListsApi::get_checkpoints>},
      {"GET", {"v1", "jobs", "{}", "checkpoints", "{}", "export"}, read, by<&Parts::exports, &ExportsApi::get_export>},
      {"POST", {"v1", "jobs", "{}", "checkpoints", "{}", "export"}, read, by<&Parts::exports, &ExportsApi::post_export>},
      {"GET", {"v1", "downloads", "{}"}, none, by<&Parts::exports, &ExportsApi::get_download>},
      {"GET", {"v1", "jobs", "{}", "ledger"}, read, by<&Parts::lists, &ListsApi::get_ledger>},
      {"GET", {"v1", "events"}, read, by<&Parts::lists, &ListsApi::get_all_events>},
      {"GET", {"v1", "nodes"}, read, by<&Parts::workers, &WorkersApi::get_nodes>},
      {"POST", {"v1", "nodes", "{}", "drain"}, admin, by<&Parts::workers, &WorkersApi::post_drain>},
      {"POST", {"v1", "completions"}, read, by<&Parts::serving, &ServingApi::post_completion>},
      {"GET", {"v1", "models"}, read, by<&Parts::serving, &ServingApi::get_models>},
      {"GET", {"v1", "services"}, read, by<&Parts::probes, &Probes::get_services>},
      {"GET", {"v1", "whoami"}, any, by_itself<&TokenDesk::get_whoami>},
      {"GET", {"v1", "webhooks"}, admin, by<&Parts::webhooks, &WebhooksApi::get_webhooks>},
      {"POST", {"v1", "webhooks"}, admin, by<&Parts::webhooks, &WebhooksApi::post_webhook>},
      {"DELETE", {"v1", "webhooks", "{}"}, admin, by<&Parts::webhooks, &WebhooksApi::delete_webhook>},
      {"GET", {"v1", "tokens"}, admin, by<&Parts::tokens, &TokenDesk::get_tokens>},
      {"POST", {"v1", "tokens"}, admin, by<&Parts::tokens, &TokenDesk::post_token>},
      {"DELETE", {"v1", "tokens", "{}"}, admin, by<&Parts::tokens, &TokenDesk::delete_token>},
  };
  return kRoutes;
}

RouteMatch find_route(const std::string& method, const std::string& path) {
  const std::vector<std::string> parts = parts_of(path);
  RouteMatch found;
  for (const Route& candidate : routes()) {
    if (!matches(candidate.path, parts, found.arguments)) continue;
    found.methods.insert(candidate.method);
    if (method != candidate.method) continue;
    found.route = &candidate;
    break;
  }
  return found;
}

}  // namespace holdfast::rendezvous
