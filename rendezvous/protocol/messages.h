// What the service, the workers and the command line say to each other, as plain structs; messages.cpp has the JSON.
//
// The worker protocol is level-triggered both ways: a worker always reports its whole status, the service always answers
// with the whole directive it wants followed now. Lost, repeated or late messages, and a service that was restarted,
// change nothing but time. Fencing: every message of a worker carries its incarnation and the generation it speaks of;
// the service refuses stale ones with 409 and a reason (Problem::code "stale_incarnation" or "stale_generation"). A checkpoint
// of steps that the job has gone back below is "stale_state": no later generation will take it.
//
//   POST /v1/workers                      RegisterRequest  -> RegisterReply
//   POST /v1/workers/{id}/status          WorkerStatus     -> StatusReply        (every second and at each change)
//   GET  /v1/workers/{id}/directive?incarnation=I&have=TAG&wait_ms=N -> Directive, or 204 when nothing changed in time
//   POST /v1/workers/lost                 WorkerLost       -> 204                (a supervisor whose child died)
//   POST /v1/workers/{id}/logs            LogBatch         -> 204
//   POST /v1/jobs/{id}/progress           Progress         -> 204                (rank 0, at most ten a second)
//   POST /v1/jobs/{id}/faults             FaultReport      -> 204
//   POST /v1/jobs/{id}/checkpoints        CheckpointRecord -> 201                (after the manifest is durable)
//   POST /v1/jobs/{id}/events             WorkerEvent      -> 204
//   GET|PUT|DELETE /v1/jobs/{id}/objects/{key}, GET /v1/jobs/{id}/objects?prefix=P -> {"keys": []}
//     With the headers Holdfast-Worker and Holdfast-Incarnation (both optional) a PUT or DELETE of a life that is over is
//     refused like a message of it. With Holdfast-Checksum (optional, XXH3-128 of the body in hex) a PUT whose body is
//     another is refused with 400 "altered_on_the_way", and may be repeated. A full volume is 507 "no_space", a damaged object
//     422 "corrupt", a volume that is not there 503.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol/job_spec.h"

namespace holdfast::rendezvous {

inline constexpr int kProtocolVersion = 2;  // a worker of another version is refused with both numbers
inline constexpr const char* kHoldfastVersion = "0.1.0";

struct RegisterRequest {
  int protocol_version = kProtocolVersion;
  std::string version = kHoldfastVersion;
  std::string name;         // the worker's own; its id from then on. A second live worker of that name replaces the first
  std::string incarnation;  // made by the supervisor for each life
  std::string node;         // host name
  int64_t pid = 0;          // of the training process
  std::string address;      // "10.0.0.2:41234", where the ring listens
  std::string device, device_model, numerics;  // kernels::DeviceInfo
  int64_t memory_bytes = 0;
  int threads = 0;
  std::map<std::string, std::string> labels;  // for a job's `requires`; none from a worker of an older release
};
struct RegisterReply {
  std::string worker_id;
  std::string service_id;  // made anew at each start of the service
  int64_t heartbeat_ms = 1000, lease_ms = 3000;
};

// What a worker is doing.
//   idle       has no job
//   preparing  was told to prepare a job and is checking data and building the model
//   prepared   can take part in the job's next generation; does nothing of a generation <= `generation` any more.
//              A survivor of a fault or a yield is `prepared` too, with the step its state is at.
//   refused    cannot take part: `reason`
//   active     takes part in `generation`
enum class Phase { kIdle, kPreparing, kPrepared, kRefused, kActive };
const char* phase_name(Phase phase);

struct WorkerStatus {
  std::string incarnation;
  Phase phase = Phase::kIdle;
  std::string job;         // "" when idle
  int64_t job_born = 0;    // of the directive that the job was taken up with
  int64_t generation = 0;  // active: the one taken part in; prepared: the highest fenced off; 0: none yet
  int64_t step = -1;       // steps applied to the state held; -1: holds none
  // The newest generation in which all members agreed on the state that this one was computed from; 0: holds none.
  int64_t state_generation = 0;
  std::string data_digest;  // TokenFile::digest of the training file, once prepared
  int64_t data_tokens = 0;
  bool leaving = false;  // SIGTERM was received: wants out after this step
  std::string reason;    // for refused, and for prepared after a fault
  bool operator==(const WorkerStatus&) const = default;
};
struct StatusReply {
  std::string directive_tag;  // of the directive in force: a worker that has another one polls at once
};

struct Member {
  std::string worker, incarnation, address;
  bool operator==(const Member&) const = default;
};

// Where the state of a generation comes from.
struct StateSource {
  enum class Kind { kInitial, kMemory, kCheckpoint };
  Kind kind = Kind::kInitial;
  int64_t step = 0;
  // kCheckpoint: rank 0 reads it and the others copy from rank 0. `store` as in JobSpec::checkpoint_store ("" = kept by
  // the service under `job`); fall_back: older ones may be taken when this one does not verify (resume_from latest).
  std::string job, store;
  std::string state_hash;
  bool operator==(const StateSource&) const = default;
};

// What the service wants of a worker now.
//   idle     have no job: drop what you hold
//   prepare  get ready for `job`: open and check the data, build the model; keep state you hold for it
//   join     take part in `generation` of `job` as rank `rank` of members.size()
//   yield    finish the step under way with all other ranks, write a checkpoint if told, then be `prepared`
//   fence    stop now whatever you do in generations <= `generation`, then be `prepared` with the state you hold
//   exit     leave: the process ends with status 0 (drained, or its SIGTERM was granted)
enum class DirectiveKind { kIdle, kPrepare, kJoin, kYield, kFence, kExit };
const char* directive_name(DirectiveKind kind);

struct Directive {
  DirectiveKind kind = DirectiveKind::kIdle;
  std::string job;
  // When it was submitted, ms since 1970; 0: not said. A database that was restored from an older copy can give a job's id
  // again: what a worker holds of another job of that id is of no use.
  int64_t job_born = 0;
  int64_t generation = 0;
  std::string reason;  // for people
  // prepare, join
  std::optional<JobSpec> spec;  // resolved
  // join
  int rank = 0;
  std::vector<Member> members;  // in rank order
  std::string secret;           // hex; authenticates ring connections of this generation; never logged
  StateSource source;
  // yield
  bool checkpoint = false;
  int64_t question = 0;  // grows when the worker is asked for a sign of life: its status, at once, as after any new directive

  std::string tag() const;  // digest of the content: what `have=` carries
};

struct WorkerLost {
  std::string incarnation;
  std::string reason;                   // "killed by signal 9 (SIGKILL)"
  std::vector<std::string> last_lines;  // that the process wrote to stderr; at most kLastLinesMax
};
inline constexpr size_t kLastLinesMax = 50;
inline constexpr const char* kLastWordsLevel = "stderr";  // of these lines in the job's log, as bad as an error

struct DealtShare {  // microbatches [first, last) of one step, and whose they are
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
  bool refused = false;            // its loss or gradient was not finite: it changed nothing but the step number
  std::vector<DealtShare> shares;  // who computed what, where that is not what deal() says; empty: it is
};
struct Progress {
  std::string worker, incarnation;
  int64_t generation = 0;
  int64_t step = 0;               // newest committed; the points lead up to it without a gap
  std::vector<StepPoint> points;  // since the last report that was answered
  std::string state_hash;         // "" when not computed
  int64_t state_hash_step = -1;
  bool finished = false;  // total_steps reached and the last checkpoint registered
  std::string failure;    // not empty: the job cannot go on, and why
};

struct FaultReport {
  std::string worker, incarnation;
  int64_t generation = 0;
  int suspect_rank = -1;         // -1: nobody in particular
  std::string kind;              // connection_lost | timeout | handshake_failed | silent (a question: is it alive?) |
                                 // state_mismatch | state_diverged | checkpoint_unreadable
  std::string detail;            // evidence, for people
  int64_t checkpoint_step = -1;  // for checkpoint_unreadable
  bool suspect_gone = false;     // its node refuses connections to it: no such process is there any more
};

struct CheckpointRecord {
  std::string worker, incarnation;
  int64_t generation = 0;        // the generation the writer belongs to now
  int64_t state_generation = 0;  // the one in which the state was computed: refused ("stale_state", for good) when the job has
                                 // gone back below `step` since; 0: not said
  int64_t step = 0;
  std::string store, state_hash, created_at;
  int64_t raw_bytes = 0, stored_bytes = 0, shards = 0;
  double stall_s = 0, write_s = 0;
  std::vector<int64_t> removed_steps;  // what retention removed after it
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
  int64_t number = 0;  // 1, 2, 3 … of its incarnation: one that comes again is not taken again; 0: older workers do not say
};

// RFC 9457. `errors` names fields.
struct Problem {
  int status = 500;
  std::string title, detail;
  std::string code;  // stable, for programs: "invalid_spec", "stale_generation", "not_found", ...
  std::vector<FieldError> errors;
};

// JSON that came from elsewhere; json.is_discarded() where it is none. What goes through a value later (text, comparisons) does
// so by recursion, so what is nested deeper than kJsonDepthMax is none either.
inline constexpr int kJsonDepthMax = 64;
struct ParsedJson {
  nlohmann::json json;
  bool too_deep = false;
};
ParsedJson parse_json(std::string_view text);

// Compact JSON text. Never throws: bytes that are no UTF-8 (a log line may hold any) become U+FFFD.
std::string json_text(const nlohmann::json& json);

// A number as JSON, which has none that is not finite: those are the strings "nan", "inf" and "-inf". And back; nothing for
// any other JSON. (null is read as "nan", too: that is what nlohmann-json writes.)
nlohmann::json number_json(double value);
std::optional<double> number_from_json(const nlohmann::json& json);

// JSON, both ways, for everything above. from_json throws std::invalid_argument that names the field.
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type
#define HOLDFAST_MESSAGE(Type)                \
  void to_json(nlohmann::json&, const Type&); \
  void from_json(const nlohmann::json&, Type&)
HOLDFAST_MESSAGE(RegisterRequest);
HOLDFAST_MESSAGE(RegisterReply);
HOLDFAST_MESSAGE(WorkerStatus);
HOLDFAST_MESSAGE(StatusReply);
HOLDFAST_MESSAGE(Directive);
HOLDFAST_MESSAGE(WorkerLost);
HOLDFAST_MESSAGE(Progress);
HOLDFAST_MESSAGE(FaultReport);
HOLDFAST_MESSAGE(CheckpointRecord);
HOLDFAST_MESSAGE(WorkerEvent);
HOLDFAST_MESSAGE(LogBatch);
HOLDFAST_MESSAGE(Problem);
#undef HOLDFAST_MESSAGE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace holdfast::rendezvous
