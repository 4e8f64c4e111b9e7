// Where each field of KeptMembership is kept in the database: one list, from which columns and JSON are written and read.
//
// A field with a new name or type needs a migration (sqlite/schema.cpp). A field without a row here fails to compile.
#pragma once

#include <string>
#include <tuple>

#include "rendezvous/store/rows.h"

namespace holdfast::rendezvous {

template <typename Kept, typename Stored>
struct InColumn {  // of the table of jobs
  Kept KeptMembership::*field;
  const char* name;
  Stored JobRow::*stored;
  bool changes = true;  // false: written once
};
template <typename Kept>
struct InQueueing {  // of the JSON in the column queueing, where it is left out while it has the value of a fresh job
  Kept KeptMembership::*field;
  const char* name;
};
struct InQueueingAsWallTime {  // the same, by Job::preemptible_at_ms: a steady time means nothing to the next process
  Millis KeptMembership::*field;
  const char* name;
};
template <typename Kept>
struct InTable {  // rows of a table of its own
  Kept KeptMembership::*field;
  const char* name;
};

inline constexpr InQueueingAsWallTime kPreemptibleField{&KeptMembership::preemptible_ms, "preemptible_at_ms"};

inline constexpr auto kKeptFields = std::tuple{
    InColumn{&KeptMembership::job, "id", &JobRow::id, false},
    InColumn{&KeptMembership::born, "submitted_ms", &JobRow::submitted_ms, false},
    InColumn{&KeptMembership::spec, "spec", &JobRow::spec, false},
    InColumn{&KeptMembership::min_nodes, "min_nodes", &JobRow::min_nodes},
    InColumn{&KeptMembership::nodes, "nodes", &JobRow::nodes},
    InColumn{&KeptMembership::max_nodes, "max_nodes", &JobRow::max_nodes},
    InColumn{&KeptMembership::state, "state", &JobRow::state},
    InColumn{&KeptMembership::reason, "reason", &JobRow::reason},
    InColumn{&KeptMembership::stage, "stage", &JobRow::stage},
    InColumn{&KeptMembership::cause, "cause", &JobRow::cause},
    InColumn{&KeptMembership::intent, "intent", &JobRow::intent},
    InTable{&KeptMembership::current, "generations"},
    InColumn{&KeptMembership::committed_step, "committed_step", &JobRow::committed_step},
    InColumn{&KeptMembership::restarts, "restarts", &JobRow::restarts},
    InColumn{&KeptMembership::data_digest, "data_digest", &JobRow::data_digest},
    InColumn{&KeptMembership::numerics, "numerics", &JobRow::numerics},
    InColumn{&KeptMembership::lineage, "lineage", &JobRow::lineage},
    InTable{&KeptMembership::lineage_of, "generations"},
    InTable{&KeptMembership::began_at, "generations"},
    InTable{&KeptMembership::outrun_to, "generations"},
    InTable{&KeptMembership::checkpoints, "checkpoints"},
    InTable{&KeptMembership::checkpoint_s, "checkpoints"},
    InColumn{&KeptMembership::resume, "resume", &JobRow::resume},
    InQueueing{&KeptMembership::data_tokens, "data_tokens"},
    InQueueing{&KeptMembership::shard, "shard"},
    InQueueing{&KeptMembership::replicas, "replicas"},
    InQueueing{&KeptMembership::replicas_given, "replicas_given"},
    InQueueing{&KeptMembership::stop_reason, "stop_reason"},
    InQueueing{&KeptMembership::preempted_by, "preempted_by"},
    InQueueing{&KeptMembership::preemptor_priority, "preemptor_priority"},
    InQueueing{&KeptMembership::preemptions, "preemptions"},
    InQueueing{&KeptMembership::preemptions_failed, "preemptions_failed"},
    kPreemptibleField,
    InQueueing{&KeptMembership::retries, "retries"},
    InQueueing{&KeptMembership::retry_pending, "retry_pending"},
    InQueueing{&KeptMembership::failure, "failure"},
    InQueueing{&KeptMembership::failed_step, "failed_step"},
};

template <typename T>
inline constexpr bool kIsColumn = false;
template <typename Kept, typename Stored>
inline constexpr bool kIsColumn<InColumn<Kept, Stored>> = true;
template <typename T>
inline constexpr bool kIsQueueing = false;
template <typename Kept>
inline constexpr bool kIsQueueing<InQueueing<Kept>> = true;

// visit(row of the list), for each column in their order.
template <typename Visit>
void for_each_kept_column(const Visit& visit) {
  std::apply(
      [&](const auto&... rows) {
        const auto one = [&](const auto& row) {
          if constexpr (kIsColumn<std::decay_t<decltype(row)>>) visit(row);
        };
        (one(rows), ...);
      },
      kKeptFields);
}

// visit(row of the list), for each value in the JSON of the column queueing but the wall time.
template <typename Visit>
void for_each_kept_queueing_field(const Visit& visit) {
  std::apply(
      [&](const auto&... rows) {
        const auto one = [&](const auto& row) {
          if constexpr (kIsQueueing<std::decay_t<decltype(row)>>) visit(row);
        };
        (one(rows), ...);
      },
      kKeptFields);
}

// Writes the fields that are columns into the row. A spec that the row has already stays: it is written once.
void keep_columns(const KeptMembership& kept, JobRow& row);
// Reads them back. Throws StoreError where the row holds a word that this version does not know.
void read_columns(const JobRow& row, KeptMembership& kept);
// Reads the rows of the tables of generations and checkpoints back, each in the order of its number or step.
void read_generation(const Generation& generation, KeptMembership& kept);
void read_checkpoint(const CheckpointRow& row, KeptMembership& kept);

}  // namespace holdfast::rendezvous
