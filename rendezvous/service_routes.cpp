// The routes: what there is, who may go there, and who answers. openapi.json describes the same, and a test compares the two.
#include "rendezvous/service_impl.h"

namespace holdfast::rendezvous {

const std::vector<Service::Impl::Route>& Service::Impl::routes() {
  using I = Impl;
  constexpr Access none = Access::kNone, any = Access::kAny, worker = Access::kWorker, read = Access::kRead,
                   submit = Access::kSubmit, admin = Access::kAdmin;
  static const std::vector<Route> kRoutes = {
      {"GET", {""}, none, &I::get_page},
      {"GET", {"page", "{}"}, none, &I::get_page},
      {"GET", {"healthz"}, none, &I::get_healthz},
      {"GET", {"readyz"}, none, &I::get_readyz},
      {"GET", {"metrics"}, read, &I::get_prometheus},
      {"GET", {"openapi.json"}, any, &I::get_openapi},
      {"POST", {"v1", "workers"}, worker, &I::post_worker},
      {"POST", {"v1", "workers", "lost"}, worker, &I::post_lost},
      {"POST", {"v1", "workers", "{}", "status"}, worker, &I::post_status},
      {"GET", {"v1", "workers", "{}", "directive"}, worker, &I::get_directive},
      {"POST", {"v1", "workers", "{}", "logs"}, worker, &I::post_worker_logs},
      {"POST", {"v1", "jobs", "{}", "progress"}, worker, &I::post_progress},
      {"POST", {"v1", "jobs", "{}", "faults"}, worker, &I::post_fault},
      {"POST", {"v1", "jobs", "{}", "checkpoints"}, worker, &I::post_checkpoint},
      {"POST", {"v1", "jobs", "{}", "events"}, worker, &I::post_job_event},
      {"GET", {"v1", "jobs", "{}", "objects"}, any, &I::list_objects},
      {"GET", {"v1", "jobs", "{}", "objects", "*"}, any, &I::get_object},
      {"PUT", {"v1", "jobs", "{}", "objects", "*"}, worker, &I::put_object},
      {"DELETE", {"v1", "jobs", "{}", "objects", "*"}, worker, &I::delete_object},
      {"POST", {"v1", "jobs"}, submit, &I::post_job},
      {"GET", {"v1", "jobs"}, read, &I::get_jobs},
      {"GET", {"v1", "job_spec"}, read, &I::get_job_spec},
      {"GET", {"v1", "jobs", "{}"}, read, &I::get_job},
      {"POST", {"v1", "jobs", "{}", "stop"}, submit, &I::post_stop},
      {"POST", {"v1", "jobs", "{}", "pause"}, submit, &I::post_pause},
      {"POST", {"v1", "jobs", "{}", "resume"}, submit, &I::post_resume},
      {"POST", {"v1", "jobs", "{}", "scale"}, submit, &I::post_scale},
      {"GET", {"v1", "jobs", "{}", "events"}, read, &I::get_events},
      {"GET", {"v1", "jobs", "{}", "logs"}, read, &I::get_logs},
      {"GET", {"v1", "jobs", "{}", "metrics"}, read, &I::get_metrics},
      {"GET", {"v1", "jobs", "{}", "checkpoints"}, read, &I::get_checkpoints},
      {"GET", {"v1", "jobs", "{}", "ledger"}, read, &I::get_ledger},
      {"GET", {"v1", "events"}, read, &I::get_all_events},
      {"GET", {"v1", "nodes"}, read, &I::get_nodes},
      {"POST", {"v1", "nodes", "{}", "drain"}, admin, &I::post_drain},
      {"GET", {"v1", "whoami"}, any, &I::get_whoami},
      {"GET", {"v1", "webhooks"}, admin, &I::get_webhooks},
      {"POST", {"v1", "webhooks"}, admin, &I::post_webhook},
      {"DELETE", {"v1", "webhooks", "{}"}, admin, &I::delete_webhook},
      {"GET", {"v1", "tokens"}, admin, &I::get_tokens},
      {"POST", {"v1", "tokens"}, admin, &I::post_token},
      {"DELETE", {"v1", "tokens", "{}"}, admin, &I::delete_token},
  };
  return kRoutes;
}

}  // namespace holdfast::rendezvous
