// Views: the JSON that the API shows of jobs, workers and rows. No view holds a secret. Numbers that are not finite are strings
// (number_json).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/coordinator/coordinator.h"

namespace holdfast::rendezvous {

struct FieldRow;
class WaitingRoom;

nlohmann::json show_job(const Coordinator& state, const Job& job);      // everything
nlohmann::json summarize_job(const WaitingRoom& room, const Job& job);  // a row of a list: without spec and workers
nlohmann::json summarize_job(const Coordinator& state, const Job& job);
// The same without the reason, for which all workers may have to be looked at.
nlohmann::json figures_of_job(const Coordinator& state, const Job& job);
nlohmann::json show_worker(const Coordinator& state, const Worker& worker);
nlohmann::json show_checkpoint(const Job& job, const CheckpointRecord& record);
nlohmann::json show_field(const FieldRow& field);  // a field of the job spec, for forms
nlohmann::json show_event(const EventRow& row);
nlohmann::json show_log(const LogRow& row);
nlohmann::json show_step(const StepRow& row);
// The whole answer as text. For some thousand points a tree of JSON values would take longer than all other work.
std::string curve_text(const std::vector<CurvePoint>& points, int64_t last_id);
nlohmann::json show_ledger(const Job& job, const std::vector<LedgerRow>& rows, const std::vector<StepDigest>& steps);

// time_text(); null for 0.
nlohmann::json time_json(int64_t wall_ms);

}  // namespace holdfast::rendezvous
