// Field names are a contract with users: openapi.json lists them, and `show --json` and `nodes --json` print them.
#include "rendezvous/api/answers/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>

#include "rendezvous/protocol/job_spec_fields.h"
#include "rendezvous/queries/waits_for.h"
#include "rendezvous/text/time_text.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

Json or_null(const std::optional<double>& value) {
  return value ? number_json(*value) : Json(nullptr);
}

double in_seconds(int64_t ms) {
  return static_cast<double>(ms) / 1000;
}

// That of the generation that trains; null: the state is not divided, or it is not known yet how.
const StateDivision* division_now(const Job& job) {
  const JobMembership& m = job.membership;
  const bool known = m.state == JobState::kRunning && m.stage != Stage::kForming && job.divided_in == m.current.number;
  return known && job.division && job.division->owned_bytes.size() == m.current.members.size() ? &*job.division : nullptr;
}

Json division_json(const Job& job) {
  const StateDivision* const division = division_now(job);
  if (division == nullptr) return nullptr;
  return {{"copies", division->copies},
          {"copies_wanted", job.membership->replicas_now()},
          {"nodes", division->nodes},
          {"bytes_to_come", division->bytes_to_come}};
}

// The members of the generation in rank order, then the workers that are getting ready (rank null).
Json workers_of(const Coordinator& state, const Job& job) {
  const JobMembership& m = job.membership;
  Json list = Json::array();
  const auto add = [&](const std::string& id, Json rank) {
    const auto worker = state.workers().find(id);
    if (worker == state.workers().end()) return;
    const auto p = m.participants.find(id);
    Json row = {{"id", id},
                {"rank", std::move(rank)},
                {"node", worker->second.registration.node},
                {"device", worker->second.registration.device}};
    row["phase"] = p == m.participants.end() ? "gone" : !state.hears_workers() ? "unknown" : phase_name(p->second.status.phase);
    row["step"] = p == m.participants.end() || p->second.status.step < 0 ? Json(nullptr) : Json(p->second.status.step);
    const bool owns = division_now(job) != nullptr && row["rank"].is_number();
    row["owned_bytes"] = owns ? Json(division_now(job)->owned_bytes[row["rank"].get<size_t>()]) : Json(nullptr);
    list.push_back(std::move(row));
  };
  const bool trains = m.state == JobState::kRunning && m.stage != Stage::kForming;
  if (trains) {
    for (size_t rank = 0; rank < m.current.members.size(); ++rank) add(m.current.members[rank].worker, rank);
  }
  for (const auto& [id, p] : m.participants) {
    if (!trains || !is_member(m, p)) add(id, nullptr);
  }
  return list;
}

// The state that its owners asked for last.
const char* intent_name(Intent intent) {
  return intent == Intent::kPause ? "pause" : intent == Intent::kStop ? "stop" : "run";
}

int64_t world_size(const Job& job) {
  const JobMembership& m = job.membership;
  return m.state == JobState::kRunning && m.stage != Stage::kForming ? static_cast<int64_t>(m.current.members.size()) : 0;
}

Json latest_checkpoint(const Coordinator& state, const Job& job) {
  const KnownCheckpoint* newest = newest_checkpoint(job.membership);
  if (newest == nullptr) return nullptr;
  const auto record = job.checkpoints.find(newest->step);
  Json json = {{"step", newest->step}, {"age_s", nullptr}, {"store", newest->store}, {"state_hash", newest->state_hash}};
  if (record != job.checkpoints.end()) {
    if (const auto made_ms = parse_time(record->second.created_at)) {
      json["age_s"] = std::max(0.0, in_seconds(state.wall_ms() - *made_ms));
    }
    json["created_at"] = record->second.created_at;
  }
  if (const std::string& copy = job.membership->spec.checkpoint_copy; !copy.empty()) {
    Json copied = nullptr;
    for (const auto& [step, other] : job.checkpoints) {
      if (!other.copied_at.empty()) copied = step;
    }
    json["copy"] = {{"place", copy}, {"step", copied}};
  }
  return json;
}

const char* life_name(const Worker& worker) {
  if (worker.life == Worker::Life::kLost) return "lost";
  if (worker.life == Worker::Life::kLeft) return "left";
  return worker.leaving() ? "draining" : "alive";
}

}  // namespace

Json time_json(int64_t wall_ms) {
  return wall_ms == 0 ? Json(nullptr) : Json(time_text(wall_ms));
}

Json figures_of_job(const Coordinator& state, const Job& job) {
  const JobMembership& m = job.membership;
  const bool running = m.state == JobState::kRunning && job.step_time.step_s > 0;
  const int64_t total = m.total_steps();  // 0: not known yet
  Json json = {{"id", job.id},
               {"name", m.spec.name},
               {"kind", m.spec.kind},
               {"state", job_state_name(m.state)},
               {"step", m.committed_step},
               {"total_steps", total > 0 ? Json(total) : Json(nullptr)},
               {"generation", m.current.number},
               {"world_size", world_size(job)},
               {"restarts", m.restarts},
               {"refused_steps", job.refused_steps},
               {"state_hash", job.state_hash.empty() ? Json(nullptr) : Json(job.state_hash)},
               {"state_hash_step", job.state_hash_step < 0 ? Json(nullptr) : Json(job.state_hash_step)},
               {"priority", m.spec.priority},
               {"nodes", m.nodes},
               {"labels", m.spec.labels}};
  json["loss"] = or_null(job.loss);
  json["validation_loss"] = or_null(job.validation_loss);
  json["tokens_per_second"] =
      running ? Json(static_cast<double>(m.spec.tokens_per_step()) / job.step_time.step_s) : Json(nullptr);
  json["eta_s"] =
      running && total > 0 ? Json(static_cast<double>(total - m.committed_step) * job.step_time.step_s) : Json(nullptr);
  json["latest_checkpoint"] = latest_checkpoint(state, job);
  json["submitted_at"] = time_json(job.submitted_ms);
  json["started_at"] = time_json(job.started_ms);
  json["finished_at"] = time_json(job.finished_ms);
  return json;
}

Json summarize_job(const WaitingRoom& room, const Job& job) {
  Json json = figures_of_job(room.state(), job);
  json["reason"] = room.state().hears_workers() ? reason_of(room, job) : job.membership->reason;
  return json;
}

Json summarize_job(const Coordinator& state, const Job& job) {
  return summarize_job(WaitingRoom(state), job);
}

Json show_job(const Coordinator& state, const Job& job) {
  Json json = figures_of_job(state, job);
  const JobMembership& m = job.membership;
  Json waits = state.hears_workers() ? waits_for(WaitingRoom(state), job) : Json(nullptr);
  json["reason"] = waits.is_null() ? Json(m.reason) : waits["text"];
  json["waits_for"] = std::move(waits);
  json["workers"] = workers_of(state, job);
  json["division"] = division_json(job);
  json["shard"] = m.shard_now().empty() ? Json(nullptr) : Json(m.shard_now());
  json["spec"] = to_json(m.spec);
  json["stage"] = stage_name(m.stage);
  json["intent"] = intent_name(m.intent);
  json["wanted"] = {
      {"min_nodes", m.min_nodes}, {"nodes", m.nodes}, {"max_nodes", m.max_nodes}, {"replicas", m.replicas_wanted()}};
  Json refused = Json::array();
  for (const auto& [worker, refusal] : job.refusals) {
    if (state.refusal_of(job, worker) != nullptr) refused.push_back({{"worker", worker}, {"reason", refusal.row.reason}});
  }
  json["refused"] = std::move(refused);
  json["after"] = job.after.empty() ? Json(nullptr) : Json(job.after);
  json["running_s"] = in_seconds(job.runtime.ran_ms);
  json["retries_done"] = m.retries;
  json["preemptions"] = m.preemptions;
  return json;
}

Json show_load(const DeviceLoad& load) {
  return {{"busy", or_null(load.busy)},
          {"memory_used_bytes", load.memory_used_bytes ? Json(*load.memory_used_bytes) : Json(nullptr)},
          {"watts", or_null(load.watts)},
          {"celsius", or_null(load.celsius)}};
}

Json show_worker(const Coordinator& state, const Worker& worker) {
  const RegisterRequest& r = worker.registration;
  const Job* job = state.find_job(worker.job);
  const bool alive = worker.life == Worker::Life::kAlive;
  Json json = {{"id", r.name},
               {"node", r.node},
               {"pid", r.pid},
               {"address", r.address},
               {"device", r.device},
               {"device_model", r.device_model},
               {"numerics", r.numerics},
               {"threads", r.threads},
               {"memory_bytes", r.memory_bytes},
               {"memory_limit_bytes", r.memory_limit_bytes > 0 ? Json(r.memory_limit_bytes) : Json(nullptr)},
               {"version", r.version},
               {"labels", r.labels},
               {"only_job", r.only_job.empty() ? Json(nullptr) : Json(r.only_job)},
               {"incarnation", r.incarnation},
               {"state", life_name(worker)},
               {"last_seen_s", nullptr}};
  const bool heard = alive && state.hears_workers();  // else only the store is known, in which the living are not
  if (heard || !alive) json["last_seen_s"] = std::max(0.0, in_seconds(state.wall_ms() - worker.seen_ms));
  const int64_t held_ms = alive && worker.job.empty() ? held_back_ms(worker.losses, state.wall_ms()) : 0;
  json["held_back_s"] = held_ms > 0 ? Json(in_seconds(held_ms)) : Json(nullptr);
  json["held_back_reason"] = held_ms > 0 ? Json(held_back_in_words(r.name, worker.losses, state.wall_ms())) : Json(nullptr);
  json["load"] = show_load(alive ? worker.load : DeviceLoad{});
  json["phase"] = heard ? Json(phase_name(worker.status.phase)) : Json(nullptr);
  json["job"] = job != nullptr ? Json(job->id) : Json(nullptr);
  json["generation"] = job != nullptr && worker.status.generation > 0 ? Json(worker.status.generation) : Json(nullptr);
  json["step"] = worker.status.step >= 0 ? Json(worker.status.step) : Json(nullptr);
  return json;
}

Json show_checkpoint(const Job& job, const CheckpointRecord& record) {
  Json json = {{"job", job.id},
               {"step", record.step},
               {"generation", record.generation},
               {"worker", record.worker},
               {"store", record.store},
               {"state_hash", record.state_hash},
               {"created_at", record.created_at},
               {"raw_bytes", record.raw_bytes},
               {"stored_bytes", record.stored_bytes},
               {"shards", record.shards},
               {"stall_s", record.stall_s},
               {"write_s", record.write_s}};
  const auto known = job.membership->checkpoints.find(record.step);
  json["copy"] = nullptr;
  if (!record.copy.empty()) {
    const Json copied_at = record.copied_at.empty() ? Json(nullptr) : Json(record.copied_at);
    json["copy"] = {{"place", record.copy}, {"copied_at", copied_at}};
  }
  json["readable"] = known == job.membership->checkpoints.end() || !known->second.unreadable;
  return json;
}

Json show_field(const FieldRow& field) {
  Json json = {{"name", field.name}, {"help", field.help}, {"range", range_text(field)}};
  for (const SpecField& words : job_spec_fields()) {
    if (words.name == field.name) json["type"] = words.type, json["default"] = words.default_value;
  }
  json["default_is_a_value"] = field.default_text == nullptr;
  static constexpr const char* kKinds[] = {"train", "serve", "both"};  // in the order of FieldRow::Of
  json["kind"] = kKinds[static_cast<size_t>(field.of)];
  if (const auto* text = std::get_if<TextField>(&field.kind)) {
    json["max_bytes"] = text->max_bytes;
    if (!text->choices.empty()) json["choices"] = text->choices;
  } else if (const auto* integer = std::get_if<IntegerField>(&field.kind)) {
    json["min"] = integer->min;
    json["max"] = integer->max;
  } else if (const auto* number = std::get_if<NumberField>(&field.kind)) {
    json["min"] = number->min;
    json["max"] = number->max;
    json["above_min"] = number->above_min;
    json["below_max"] = number->below_max;
  }
  return json;
}

Json show_event(const EventRow& row) {
  return {{"id", row.id},
          {"time", time_json(row.time_ms)},
          {"job", row.job.empty() ? Json(nullptr) : Json(row.job)},
          {"worker", row.worker.empty() ? Json(nullptr) : Json(row.worker)},
          {"generation", row.generation == 0 ? Json(nullptr) : Json(row.generation)},
          {"kind", row.kind},
          {"message", row.message},
          {"actor", row.actor.empty() ? Json(nullptr) : Json(row.actor)}};
}

Json show_log(const LogRow& row) {
  Json json = {{"id", row.id},
               {"time", time_json(row.line.time_ms)},
               {"job", row.job},
               {"worker", row.worker},
               {"level", row.line.level},
               {"text", row.line.text}};
  if (row.dropped > 0) json["dropped"] = row.dropped;
  return json;
}

Json show_step(const StepRow& row) {
  const StepPoint& p = row.point;
  Json json = {{"id", row.id},
               {"time", time_json(row.time_ms)},
               {"step", p.step},
               {"generation", row.generation},
               {"world_size", row.world_size > 0 ? Json(row.world_size) : Json(nullptr)},
               {"loss", number_json(p.loss)},
               {"gradient_norm", number_json(p.gradient_norm)},
               {"learning_rate", number_json(p.learning_rate)},
               {"step_s", p.step_s},
               {"communication_s", p.communication_s},
               {"tokens", p.tokens},
               {"tokens_per_second", p.step_s > 0 ? Json(static_cast<double>(p.tokens) / p.step_s) : Json(nullptr)},
               {"data_digest", p.tokens_digest}};
  json["validation_loss"] = or_null(p.validation_loss);
  json["refused"] = p.refused;
  return json;
}

std::string curve_text(const std::vector<CurvePoint>& points, int64_t last_id) {
  const auto number = [](double value) {  // the precision that a curve can show
    return std::isfinite(value) ? fmt::format("{:.9g}", value) : number_json(value).dump();
  };
  std::string text = R"({"metrics":[)";
  bool thinned = false;
  for (const CurvePoint& p : points) {
    thinned |= p.steps > 1;
    const auto steps = static_cast<double>(p.steps);
    fmt::format_to(std::back_inserter(text), R"({}{{"step":{},"first_step":{},"steps":{},"time":{},"generation":{},)",
                   &p == points.data() ? "" : ",", p.last_step, p.first_step, p.steps, time_json(p.time_ms).dump(),
                   p.generation);
    fmt::format_to(std::back_inserter(text), R"("world_size":{},"loss":{},"loss_min":{},"loss_max":{},"not_finite":{},)",
                   p.world_size > 0 ? std::to_string(p.world_size) : "null", number(p.loss), number(p.loss_min),
                   number(p.loss_max), p.steps - p.loss_steps);
    fmt::format_to(std::back_inserter(text), R"("validation_loss":{},"gradient_norm":{},"learning_rate":{},)",
                   p.validation_loss ? number(*p.validation_loss) : "null", number(p.gradient_norm), number(p.learning_rate));
    fmt::format_to(std::back_inserter(text), R"("tokens_per_second":{},"step_s":{},"communication_s":{}}})",
                   p.step_s > 0 ? number(static_cast<double>(p.tokens) / p.step_s) : "null", number(p.step_s / steps),
                   number(p.communication_s / steps));
  }
  return text + fmt::format(R"(],"thinned":{},"last_id":{}}})", thinned, last_id);
}

Json show_ledger(const Job& job, const std::vector<LedgerRow>& rows, const std::vector<StepDigest>& steps) {
  const JobMembership& m = job.membership;
  Json json = {{"job", job.id},
               {"step", m.committed_step},
               {"generation", m.current.number},
               {"total_steps", m.total_steps()},
               {"microbatches", m.spec.microbatches()}};
  json["first_step"] = m.resume.empty() ? 1 : m.resume.front().step + 1;
  json["rows"] = Json::array();
  for (const LedgerRow& row : rows) {
    json["rows"].push_back({{"first_step", row.first_step},
                            {"last_step", row.last_step},
                            {"generation", row.generation},
                            {"rank", row.rank},
                            {"worker", row.worker},
                            {"first_microbatch", row.first_microbatch},
                            {"last_microbatch", row.last_microbatch},
                            {"voided_by", row.voided_by == 0 ? Json(nullptr) : Json(row.voided_by)}});
  }
  json["steps"] = Json::array();
  for (const StepDigest& row : steps) {
    json["steps"].push_back({{"step", row.step}, {"generation", row.generation}, {"data_digest", row.tokens_digest}});
  }
  return json;
}

}  // namespace holdfast::rendezvous
