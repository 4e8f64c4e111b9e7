#include "rendezvous/store/sql/tables.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace holdfast::rendezvous {
namespace {

// Columns as words: a name is of text; "#name" of an integer, "~name" of a number, "%name" of bytes.
std::vector<SqlColumn> columns_of(std::string_view words) {
  std::vector<SqlColumn> columns;
  for (size_t at = words.find_first_not_of(' '); at != std::string_view::npos;) {
    const size_t end = std::min(words.find(' ', at), words.size());
    const std::string_view word = words.substr(at, end - at);
    using Kind = SqlColumn::Kind;
    const Kind kind = word[0] == '#'   ? Kind::kInteger
                      : word[0] == '~' ? Kind::kReal
                      : word[0] == '%' ? Kind::kBytes
                                       : Kind::kText;
    columns.push_back({kind, std::string(kind == Kind::kText ? word : word.substr(1))});
    at = words.find_first_not_of(' ', end);
  }
  return columns;
}

SqlTable table(std::string name, std::vector<std::string> key, std::string_view columns, bool has_ids = false) {
  return {std::move(name), std::move(key), columns_of(columns), has_ids};
}

}  // namespace

const std::vector<SqlTable>& sql_tables() {
  static const std::vector<SqlTable> kTables{
      table("jobs", {"id"},
            "id #number name spec state reason stage cause intent #min_nodes #nodes #max_nodes #committed_step #restarts "
            "#lineage "
            "data_digest numerics resume #submitted_ms #started_ms #finished_ms ~loss ~validation_loss state_hash "
            "#state_hash_step #refused_steps queueing"),
      table("workers", {"id"},
            "id incarnation registration life #draining job last_job #after_generation #lost_generation #seen_ms #began_ms "
            "#short_lives #held_until_ms #log_batch"),
      table("ended_incarnations", {"incarnation"}, "incarnation worker code"),
      table("generations", {"job", "number"}, "job #number members secret source #lineage #formed_ms"),
      table("checkpoints", {"job", "step"}, "job #step record #unreadable"),
      table("refusals", {"job", "worker"}, "job worker incarnation reason"),
      table("idempotency", {"key"}, "key request job"),
      table("events", {"id"}, "#id #time_ms job worker #generation kind message actor", true),
      table(
          "steps", {"id"},
          "#id job #step #generation #world_size #time_ms ~loss ~gradient_norm ~learning_rate ~step_s ~communication_s #tokens "
          "data_digest ~validation_loss",
          true),
      table("curves", {"job", "level", "first_step"},
            "job #level #first_step #last_step #steps #time_ms #generation #world_size ~loss ~loss_min ~loss_max #loss_steps "
            "~gradient_norm #gradient_steps ~validation_loss ~learning_rate #tokens ~step_s ~communication_s"),
      table("step_digests", {"job", "first_step"}, "job #first_step #generation %digests"),
      table("ledger", {"job", "generation", "rank", "first_step", "first_microbatch"},
            "job #first_step #last_step #generation #rank worker #first_microbatch #last_microbatch #voided_by #dealt_anew"),
      table("tokens", {"number"}, "#number name role digest #created_ms #expires_ms #used_ms", true),
      table("webhooks", {"number"}, "#number url states secret #created_ms", true),
      table("webhook_deliveries", {"id"}, "#id #webhook body #made_ms #due_ms #tries", true),
      table("log_lines", {"job", "number"}, "job #number worker #time_ms level text"),
      table("log_extents", {"job"}, "job #first #last #bytes"),
      table("log_gaps", {"job", "after"}, "job #after #skipped"),
  };
  return kTables;
}

}  // namespace holdfast::rendezvous
