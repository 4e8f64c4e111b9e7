// What people and programs see of jobs and workers: the JSON of the API's answers. Secrets are in none of them. Numbers that
// are not finite are strings (number_json).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/coordinator.h"

namespace holdfast::rendezvous {

struct FieldRow;
class WaitingRoom;

nlohmann::json show_job(const Coordinator& state, const Job& job);      // everything
nlohmann::json summarize_job(const WaitingRoom& room, const Job& job);  // a row of a list: without spec and workers
nlohmann::json summarize_job(const Coordinator& state, const Job& job);
// The same without the reason, which may be a look at all workers.
nlohmann::json figures_of_job(const Coordinator& state, const Job& job);
nlohmann::json show_worker(const Coordinator& state, const Worker& worker);
nlohmann::json show_checkpoint(const Job& job, const CheckpointRecord& record);
nlohmann::json show_field(const FieldRow& field);  // of the job spec, for forms
nlohmann::json show_event(const EventRow& row);
nlohmann::json show_log(const LogRow& row);
nlohmann::json show_step(const StepRow& row);
// The whole answer, as text: of some thousand points, for which a tree of JSON values takes longer than all the rest.
std::string curve_text(const std::vector<CurvePoint>& points, int64_t last_id);
nlohmann::json show_ledger(const Job& job, const std::vector<LedgerRow>& rows, const std::vector<StepDigest>& steps);

// "2026-03-01T12:00:00.123Z"; null for 0. And back, to the second; 0 for what is no such text.
nlohmann::json time_text(int64_t wall_ms);
int64_t parse_time(const std::string& text);

}  // namespace holdfast::rendezvous
