// The messages between service, workers and command line, as plain structs; messages.cpp has their JSON.
//
// The worker protocol is level-triggered both ways: a worker always reports its whole status, and the service always answers
// with the whole directive that is in force now. Lost, repeated or late messages, and a restart of the service, cost time and
// change nothing else. Fencing: every message of a worker carries its incarnation and the generation that it is about; the
// service refuses a stale message with 409 and a reason (Problem::code "stale_incarnation" or "stale_generation"). A
// checkpoint of a step that the job has gone back below is refused as "stale_state": no later generation will accept it.
// Thread: any; everything here is a value or a pure function.
//
//   POST /v1/workers                      RegisterRequest  -> RegisterReply
//   POST /v1/workers/{id}/status          Heartbeat        -> StatusReply        (every second and at each change)
//   GET  /v1/workers/{id}/directive?incarnation=I&have=TAG&wait_ms=N -> Directive, or 204 when nothing changed in time
//   POST /v1/workers/lost                 WorkerLost       -> 204                (from a supervisor whose child died)
//   POST /v1/workers/{id}/logs            LogBatch         -> 204
//   POST /v1/jobs/{id}/progress           Progress         -> 204                (from rank 0, at most ten per second)
//   POST /v1/jobs/{id}/faults             FaultReport      -> 204
//   POST /v1/jobs/{id}/checkpoints        CheckpointRecord -> 201 CheckpointReply (after the manifest is durable)
//   POST /v1/jobs/{id}/events             WorkerEvent      -> 204
//   GET|PUT|DELETE /v1/jobs/{id}/objects/{key}, GET /v1/jobs/{id}/objects?prefix=P -> {"keys": []}
//     With the headers Holdfast-Worker and Holdfast-Incarnation (both optional) a PUT or DELETE of an ended incarnation is
//     refused like its messages. With Holdfast-Checksum (optional, XXH3-128 of the body in hex) a PUT whose body has another
//     checksum is refused with 400 "altered_on_the_way", and may be repeated. A full volume is answered with 507 "no_space", a
//     damaged object with 422 "corrupt", a missing volume with 503.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/protocol/profile.h"
#include "storage/json/outside_json.h"

namespace holdfast::rendezvous {

inline constexpr int kProtocolVersion = 3;  // a worker of another version is refused with both numbers
inline constexpr const char* kHoldfastVersion = "0.1.0";

struct RegisterRequest {
  int protocol_version = kProtocolVersion;
  std::string version = kHoldfastVersion;
  std::string name;         // the worker's name, which becomes its id. A second live worker of that name replaces the first
  std::string incarnation;  // the supervisor makes a new one for each training process
  std::string node;         // host name
  int64_t pid = 0;          // the training process
  std::string address;      // "10.0.0.2:41234": here the ring listens
  std::string device, device_model, numerics;  // as in kernels::DeviceInfo
  int64_t memory_bytes = 0;
  int64_t memory_limit_bytes = 0;  // of the host's memory, for jobs; 0: none is known
  int threads = 0;
  std::map<std::string, std::string> labels;  // for a job's `requires`; workers of older releases send none
  std::string only_job;                       // the one job that it works for, and whose end is its own; "": any
};
struct RegisterReply {
  std::string worker_id;
  std::string service_id;  // a new one at each start of the service
  int64_t heartbeat_ms = 1000, lease_ms = 3000;
};

// The phase that a worker is in.
//   idle       has no job
//   preparing  was told to prepare a job: it checks the data and builds the model
//   prepared   can take part in the job's next generation, and does nothing more in generations <= `generation`.
//              A worker that survived a fault or has yielded is `prepared`, too; `step` says where its state is.
//   refused    cannot take part; `reason` says why
//   active     takes part in `generation`
enum class Phase { kIdle, kPreparing, kPrepared, kRefused, kActive };
const char* phase_name(Phase phase);

struct WorkerStatus {
  std::string incarnation;
  Phase phase = Phase::kIdle;
  std::string job;         // "" when idle
  int64_t job_born = 0;    // Directive::job_born of the directive that gave this worker the job
  int64_t generation = 0;  // active: its generation; prepared: the highest generation that is fenced off; 0: none yet
  int64_t step = -1;       // steps applied to the worker's state; -1: it has no state
  // The newest generation in which all members agreed on the state that this state was computed from; 0: no state.
  int64_t state_generation = 0;
  // TokenFile::digest of the training file, once prepared; with those of validation and of init_from's weights behind it.
  std::string data_digest;  // training_digest.h
  int64_t data_tokens = 0;
  bool leaving = false;  // SIGTERM was received: the worker wants to leave after this step
  std::string reason;    // why it refused; or the fault after which it is prepared
  bool operator==(const WorkerStatus&) const = default;
};
// Load of a worker's device just now, for people; each figure is missing where the machine does not tell it.
struct DeviceLoad {
  std::optional<double> busy;                // of the last second: 0 to 1; of a worker on the CPU, of its threads
  std::optional<int64_t> memory_used_bytes;  // of a GPU's memory; of a worker on the CPU, what its process has resident
  std::optional<double> watts, celsius;
  bool operator==(const DeviceLoad&) const = default;
};
// The body of a status: one JSON object with the fields of the status, and `load`, which workers of older releases do not send.
struct Heartbeat {
  WorkerStatus status;
  DeviceLoad load;
};
struct StatusReply {
  std::string directive_tag;  // tag() of the directive in force: a worker that has another directive polls at once
};

struct Member {
  std::string worker, incarnation, address;
  bool operator==(const Member&) const = default;
};

// The source of the state that a generation begins with.
struct StateSource {
  enum class Kind { kInitial, kMemory, kCheckpoint };
  Kind kind = Kind::kInitial;
  int64_t step = 0;
  // kCheckpoint: rank 0 reads the checkpoint, and the other ranks copy the state from rank 0. `store` as in
  // JobSpec::checkpoint_store; "": the service keeps it, under `job`.
  std::string job, store;
  std::string state_hash;
  std::string copy{};  // kCheckpoint: a second place that may have it, as JobSpec::checkpoint_copy; "": none
  bool operator==(const StateSource&) const = default;
};

// A generation, and the step that it began from: steps above that which earlier generations computed are computed anew.
struct GenerationBegin {
  int64_t generation = 0, step = 0;
  bool operator==(const GenerationBegin&) const = default;
};
inline constexpr size_t kBeganMax = 32;  // the newest of a job, in a directive

// The thing that the service wants a worker to do now.
//   idle     have no job: drop what you hold
//   prepare  get ready for `job`: open and check the data, build the model; keep a state that you hold for it
//   join     take part in `generation` of `job` as rank `rank` of members.size()
//   yield    finish the step under way with all other ranks, write a checkpoint if told, then be `prepared`
//   fence    stop all work in generations <= `generation` now, then be `prepared` with the state that you hold
//   exit     leave: the process ends with status 0 (it was drained, or its SIGTERM is granted)
enum class DirectiveKind { kIdle, kPrepare, kJoin, kYield, kFence, kExit };
const char* directive_name(DirectiveKind kind);

struct Directive {
  DirectiveKind kind = DirectiveKind::kIdle;
  std::string job;
  // When the job was submitted, ms since 1970; 0: not said. A database that was restored from an older copy can give the same
  // id to another job; a worker must not use the state of the earlier job for it.
  int64_t job_born = 0;
  int64_t generation = 0;
  std::string reason;  // for people
  // prepare, join
  std::optional<JobSpec> spec;  // resolved
  // join
  int rank = 0;
  std::vector<Member> members;  // in rank order
  std::string secret;           // hex; authenticates the ring's connections in this generation; never logged
  StateSource source;
  std::vector<GenerationBegin> began;  // ascending, this generation included; at most kBeganMax. Empty: an older service's
  // yield
  bool checkpoint = false;
  bool released = false;  // this worker is not in the next generation, so it hands over what only it has
  // Grows when the service asks the worker for a sign of life: it answers with its status at once, as to any new directive.
  int64_t question = 0;
  // join: the profile that is to be recorded; workers of older releases do not know it.
  std::optional<ProfileOrder> profile = {};

  std::string tag() const;  // digest of the content, which the worker sends back as `have=`
  // The same of a directive as it came: a worker of an older release does not know all fields, and they count, too.
  static std::string tag_of(const nlohmann::json& directive);
};

struct WorkerLost {
  std::string incarnation;
  std::string reason;                   // "killed by signal 9 (SIGKILL)"
  std::vector<std::string> last_lines;  // the end of the process's stderr; at most kLastLinesMax
};
inline constexpr size_t kLastLinesMax = 50;
inline constexpr const char* kLastWordsLevel = "stderr";  // their level in the job's log; counts as an error

struct DealtShare {  // microbatches [first, last) of one step, and the rank that computed them
  int rank = 0;
  int64_t first = 0, last = 0;
  bool operator==(const DealtShare&) const = default;
};
struct StepPoint {   // one committed step
  int64_t step = 0;  // after it
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  double step_s = 0, communication_s = 0;
  int64_t tokens = 0;
  std::string tokens_digest;  // "data_digest" in JSON: sum of microbatch_digest over the step, 16 hex digits
  std::optional<double> validation_loss;
  bool refused = false;            // the loss or gradient was not finite: the step changed nothing but the step number
  std::vector<DealtShare> shares;  // the ranks' shares, where they differ from deal(); empty: they do not
};
// The owners of the parts of a state that is divided among the ranks (placement.h).
struct StateDivision {
  int64_t copies = 0;                // of each part: the owners that have it, of the part with the fewest
  int64_t bytes_to_come = 0;         // to owners that lack parts: while training goes on
  int64_t nodes = 0;                 // the fewest nodes that a part's owners lie on
  std::vector<int64_t> owned_bytes;  // by rank: parameters and moments in float32
  bool operator==(const StateDivision&) const = default;
};
struct Progress {
  std::string worker, incarnation;
  int64_t generation = 0;
  int64_t step = 0;               // the newest committed step; the points lead up to it without a gap
  std::vector<StepPoint> points;  // the steps since the last report that was answered
  std::string state_hash;         // "" when not computed
  int64_t state_hash_step = -1;
  bool finished = false;                  // total_steps is reached and the last checkpoint is registered
  std::string failure;                    // why the job cannot go on; "": it can
  std::optional<StateDivision> division;  // of this generation, where the state is divided
};

struct FaultReport {
  std::string worker, incarnation;
  int64_t generation = 0;
  int suspect_rank = -1;         // -1: nobody in particular
  std::string kind;              // connection_lost | timeout | handshake_failed | gone (beside the one of another report) |
                                 // silent (a question: is it alive?) | state_mismatch | state_diverged | state_lost (a
                                 // part of it, with all its owners) | checkpoint_unreadable
  std::string detail;            // evidence, for people
  int64_t checkpoint_step = -1;  // for checkpoint_unreadable
  bool suspect_gone = false;     // the suspect's node refuses connections to its address, so the process has ended
};

struct CheckpointRecord {
  std::string worker, incarnation;
  int64_t generation = 0;  // the generation that the writer belongs to now
  // The generation in which the state was computed; 0: not said. If the job has gone back below `step` since then, the
  // checkpoint is refused as "stale_state", and a retry is refused, too.
  int64_t state_generation = 0;
  int64_t step = 0;
  std::string store, state_hash, created_at;
  int64_t raw_bytes = 0, stored_bytes = 0, shards = 0;
  double stall_s = 0, write_s = 0;
  std::vector<int64_t> removed_steps;  // steps of the checkpoints that retention removed after writing this one
  // The second place, "" for none, and since when the checkpoint is there (RFC 3339; "": not yet). A record with `copied_at`
  // tells of a copy alone: nothing else in it counts but the step, the hash, and `removed_steps`, which are gone from both
  // places.
  std::string copy{}, copied_at{};
};

// The answer to a CheckpointRecord.
struct CheckpointReply {
  // Of the job's checkpoints those that other jobs begin with or serve, and have not read for good. None of them is removed
  // until an answer leaves it out. Empty where the service is older than the field.
  std::vector<int64_t> needed_steps;
};

struct WorkerEvent {
  std::string worker, incarnation, kind, message;
};

struct LogLine {
  int64_t time_ms = 0;  // since 1970, UTC
  std::string level, text;
};
struct LogBatch {
  std::string incarnation, job;
  std::vector<LogLine> lines;
  int64_t number = 0;  // 1, 2, 3 … within the incarnation: a repeated number is ignored; 0: from an older worker, not checked
};

// An error in the form of RFC 9457. `errors` names the fields at fault.
struct Problem {
  int status = 500;
  std::string title, detail;
  std::string code;  // stable, for programs: "invalid_spec", "stale_generation", "not_found", ...
  std::vector<FieldError> errors;
};

using storage::kJsonDepthMax;
using storage::parse_json;
using storage::ParsedJson;

// Compact JSON text. Never throws: bytes that are not UTF-8 (a log line may have any bytes) become U+FFFD.
std::string json_text(const nlohmann::json& json);

// A number as JSON, and back. JSON numbers are finite, so the others become the strings "nan", "inf" and "-inf". null is read
// as NaN, because nlohmann-json writes NaN as null; any other JSON gives nothing.
nlohmann::json number_json(double value);
std::optional<double> number_from_json(const nlohmann::json& json);

// JSON, both ways, for the messages above. from_json throws std::invalid_argument that names the field.
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type
#define HOLDFAST_MESSAGE(Type)                \
  void to_json(nlohmann::json&, const Type&); \
  void from_json(const nlohmann::json&, Type&)
HOLDFAST_MESSAGE(RegisterRequest);
HOLDFAST_MESSAGE(RegisterReply);
HOLDFAST_MESSAGE(WorkerStatus);
HOLDFAST_MESSAGE(DeviceLoad);
HOLDFAST_MESSAGE(Heartbeat);
HOLDFAST_MESSAGE(StatusReply);
HOLDFAST_MESSAGE(ProfileOrder);
HOLDFAST_MESSAGE(GenerationBegin);
HOLDFAST_MESSAGE(Directive);
HOLDFAST_MESSAGE(WorkerLost);
HOLDFAST_MESSAGE(Progress);
HOLDFAST_MESSAGE(FaultReport);
HOLDFAST_MESSAGE(CheckpointRecord);
HOLDFAST_MESSAGE(CheckpointReply);
HOLDFAST_MESSAGE(WorkerEvent);
HOLDFAST_MESSAGE(LogBatch);
HOLDFAST_MESSAGE(Problem);
#undef HOLDFAST_MESSAGE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace holdfast::rendezvous
