// The fields of each message, in the order in which people read them. Private to messages.cpp.
//
// A field listed with io("name") must be there and have its type; a field listed with io.maybe keeps its default where it is
// missing. Unknown fields are ignored, so that a later version may add fields to a message.
#pragma once

#include <type_traits>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

class Writer;
class Reader;
template <typename Io, typename T>
using Of = std::conditional_t<std::is_same_v<Io, Writer>, const T, T>;

// One list of fields per struct. `io` is a Writer or a Reader.
template <typename Io>
void describe(Io& io, Of<Io, RegisterRequest>& m) {
  io("protocol_version", m.protocol_version);
  io("name", m.name);
  io("incarnation", m.incarnation);
  // The other fields may be missing: a worker of another version is to be told about its version, not about a field.
  io.maybe("version", m.version);
  io.maybe("node", m.node);
  io.maybe("pid", m.pid);
  io.maybe("address", m.address);
  io.maybe("device", m.device);
  io.maybe("device_model", m.device_model);
  io.maybe("numerics", m.numerics);
  io.maybe("memory_bytes", m.memory_bytes);
  io.maybe("memory_limit_bytes", m.memory_limit_bytes);
  io.maybe("threads", m.threads);
  io.maybe("labels", m.labels);
  io.maybe("only_job", m.only_job);
}
template <typename Io>
void describe(Io& io, Of<Io, RegisterReply>& m) {
  io("worker_id", m.worker_id);
  io("service_id", m.service_id);
  io("heartbeat_ms", m.heartbeat_ms);
  io("lease_ms", m.lease_ms);
}
template <typename Io>
void describe(Io& io, Of<Io, WorkerStatus>& m) {
  io("incarnation", m.incarnation);
  io("phase", m.phase);
  io("job", m.job);
  io("generation", m.generation);
  io("step", m.step);
  io.maybe("job_born", m.job_born);
  io.maybe("state_generation", m.state_generation);
  io("data_digest", m.data_digest);
  io("data_tokens", m.data_tokens);
  io("leaving", m.leaving);
  io("reason", m.reason);
}
template <typename Io>
void describe(Io& io, Of<Io, DeviceLoad>& m) {
  io.maybe("busy", m.busy);
  io.maybe("memory_used_bytes", m.memory_used_bytes);
  io.maybe("watts", m.watts);
  io.maybe("celsius", m.celsius);
}
template <typename Io>
void describe(Io& io, Of<Io, Heartbeat>& m) {
  describe<Io>(io, m.status);
  io.maybe("load", m.load);
}
template <typename Io>
void describe(Io& io, Of<Io, StatusReply>& m) {
  io("directive_tag", m.directive_tag);
}
template <typename Io>
void describe(Io& io, Of<Io, Member>& m) {
  io("worker", m.worker);
  io("incarnation", m.incarnation);
  io("address", m.address);
}
template <typename Io>
void describe(Io& io, Of<Io, StateSource>& m) {
  io("kind", m.kind);
  io("step", m.step);
  io("job", m.job);
  io("store", m.store);
  io("state_hash", m.state_hash);
  io.maybe("copy", m.copy);
}
template <typename Io>
void describe(Io& io, Of<Io, ProfileOrder>& m) {
  io("id", m.id);
  io("from_step", m.from_step);
  io("steps", m.steps);
  io("spans_max", m.spans_max);
}
template <typename Io>
void describe(Io& io, Of<Io, GenerationBegin>& m) {
  io("generation", m.generation);
  io("step", m.step);
}
template <typename Io>
void describe(Io& io, Of<Io, Directive>& m) {
  io("kind", m.kind);
  io("job", m.job);
  io("generation", m.generation);
  io("reason", m.reason);
  io("spec", m.spec);
  io("rank", m.rank);
  io("members", m.members);
  io("secret", m.secret);
  io("source", m.source);
  io("checkpoint", m.checkpoint);
  io.maybe("released", m.released);
  io.maybe("began", m.began);
  io.maybe("job_born", m.job_born);
  io.maybe("question", m.question);
  io("profile", m.profile);
}
template <typename Io>
void describe(Io& io, Of<Io, WorkerLost>& m) {
  io("incarnation", m.incarnation);
  io("reason", m.reason);
  io.maybe("last_lines", m.last_lines);
}
template <typename Io>
void describe(Io& io, Of<Io, DealtShare>& m) {
  io("rank", m.rank);
  io("first", m.first);
  io("last", m.last);
}
template <typename Io>
void describe(Io& io, Of<Io, StepPoint>& m) {
  io("step", m.step);
  io("loss", m.loss);
  io("gradient_norm", m.gradient_norm);
  io("learning_rate", m.learning_rate);
  io("step_s", m.step_s);
  io("communication_s", m.communication_s);
  io("tokens", m.tokens);
  io("data_digest", m.tokens_digest);
  io("validation_loss", m.validation_loss);
  io.maybe("refused", m.refused);
  io("shares", m.shares);
}
template <typename Io>
void describe(Io& io, Of<Io, StateDivision>& m) {
  io("copies", m.copies);
  io("bytes_to_come", m.bytes_to_come);
  io("nodes", m.nodes);
  io("owned_bytes", m.owned_bytes);
}
template <typename Io>
void describe(Io& io, Of<Io, Progress>& m) {
  io("worker", m.worker);
  io("incarnation", m.incarnation);
  io("generation", m.generation);
  io("step", m.step);
  io("points", m.points);
  io("state_hash", m.state_hash);
  io("state_hash_step", m.state_hash_step);
  io("finished", m.finished);
  io("failure", m.failure);
  io.maybe("division", m.division);
}
template <typename Io>
void describe(Io& io, Of<Io, FaultReport>& m) {
  io("worker", m.worker);
  io("incarnation", m.incarnation);
  io("generation", m.generation);
  io("suspect_rank", m.suspect_rank);
  io("kind", m.kind);
  io("detail", m.detail);
  io("checkpoint_step", m.checkpoint_step);
  io.maybe("suspect_gone", m.suspect_gone);
}
template <typename Io>
void describe(Io& io, Of<Io, CheckpointRecord>& m) {
  io("worker", m.worker);
  io("incarnation", m.incarnation);
  io("generation", m.generation);
  io.maybe("state_generation", m.state_generation);
  io("step", m.step);
  io("store", m.store);
  io("state_hash", m.state_hash);
  io("created_at", m.created_at);
  io("raw_bytes", m.raw_bytes);
  io("stored_bytes", m.stored_bytes);
  io("shards", m.shards);
  io("stall_s", m.stall_s);
  io("write_s", m.write_s);
  io("removed_steps", m.removed_steps);
  io.maybe("copy", m.copy);
  io.maybe("copied_at", m.copied_at);
}
template <typename Io>
void describe(Io& io, Of<Io, CheckpointReply>& m) {
  io.maybe("needed_steps", m.needed_steps);
}
template <typename Io>
void describe(Io& io, Of<Io, WorkerEvent>& m) {
  io("worker", m.worker);
  io("incarnation", m.incarnation);
  io("kind", m.kind);
  io("message", m.message);
}
template <typename Io>
void describe(Io& io, Of<Io, LogLine>& m) {
  io("time_ms", m.time_ms);
  io("level", m.level);
  io("text", m.text);
}
template <typename Io>
void describe(Io& io, Of<Io, LogBatch>& m) {
  io("incarnation", m.incarnation);
  io("job", m.job);
  io("lines", m.lines);
  io.maybe("number", m.number);
}
template <typename Io>
void describe(Io& io, Of<Io, FieldError>& m) {
  io("field", m.field);
  io("message", m.message);
}
template <typename Io>
void describe(Io& io, Of<Io, Problem>& m) {
  // All fields may be missing: a proxy on the way may answer with a problem of its own.
  io.maybe("status", m.status);
  io.maybe("title", m.title);
  io.maybe("detail", m.detail);
  io.maybe("code", m.code);
  io.maybe("errors", m.errors);
}

}  // namespace holdfast::rendezvous
