// The messages as JSON. Each message is one list of its fields (`describe`), walked once to write and once to read.
// Reading: a field listed with io("name") must be there and have its type; a field listed with io.maybe keeps its default
// where it is missing. Unknown fields are ignored, so that a later version may add fields to a message.
#include "rendezvous/protocol/messages.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <stdexcept>
#include <type_traits>

#include "rendezvous/protocol/json_values.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using rendezvous::read;  // these overloads stand beside those below

template <typename T>
struct Words;  // the words of an enumeration, in the order of its values
template <>
struct Words<Phase> {
  static constexpr const char* all[] = {"idle", "preparing", "prepared", "refused", "active"};
};
template <>
struct Words<DirectiveKind> {
  static constexpr const char* all[] = {"idle", "prepare", "join", "yield", "fence", "exit"};
};
template <>
struct Words<StateSource::Kind> {
  static constexpr const char* all[] = {"initial", "memory", "checkpoint"};
};
template <typename T>
const char* word(T value) {
  return Words<T>::all[static_cast<size_t>(value)];
}

void read(const std::string& field, const Json& json, JobSpec& out) {
  try {
    out = job_spec_from_json(json);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(field + ": " + error.what());
  }
}
template <typename T>
requires std::is_enum_v<T>
void read(const std::string& field, const Json& json, T& out) {
  for (size_t i = 0; i < std::size(Words<T>::all); ++i) {
    if (json == Words<T>::all[i]) {
      out = static_cast<T>(i);
      return;
    }
  }
  refuse(field, fmt::format("one of {}", fmt::join(Words<T>::all, ", ")).c_str(), json);
}

Json written(const auto& value) requires std::is_arithmetic_v<std::decay_t<decltype(value)>> ||
    std::is_same_v<std::decay_t<decltype(value)>, std::string> {
  return value;
}
// A loss that is not finite must reach the people who look at the curves.
Json written(double value) {
  return number_json(value);
}
template <typename T>
requires std::is_enum_v<T> Json written(const T& value) {
  return word(value);
}
Json written(const JobSpec& spec) {
  return to_json_for_workers(spec);
}
Json written(const std::map<std::string, std::string>& labels) {
  return labels;
}

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
  io.maybe("threads", m.threads);
  io.maybe("labels", m.labels);
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

template <typename T>
Json written(const T& value) requires requires(Writer& io) {
  describe<Writer>(io, value);
};
template <typename T>
Json written(const std::vector<T>& values);

class Writer {
 public:
  Json json = Json::object();

  template <typename T>
  void operator()(const char* name, const T& value) {
    json[name] = written(value);
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value) json[name] = written(*value);
  }
  template <typename T>
  void maybe(const char* name, const T& value) {
    (*this)(name, value);
  }
};

class Reader {
 public:
  explicit Reader(const Json& json, std::string where = "") : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse(where_.empty() ? "message" : where_, "an object", json);
  }

  template <typename T>
  void operator()(const char* name, T& value) {
    const auto found = json_.find(name);
    if (found == json_.end()) throw std::invalid_argument(path(name) + ": is missing");
    item(path(name), *found, value);
  }
  template <typename T>
  void operator()(const char* name, std::optional<T>& value) {
    value.reset();
    const auto found = json_.find(name);
    if (found != json_.end() && !found->is_null()) item(path(name), *found, value.emplace());
  }
  template <typename T>
  void maybe(const char* name, T& value) {
    if (json_.contains(name)) (*this)(name, value);
  }

 private:
  std::string path(const char* name) const { return where_.empty() ? name : where_ + "." + name; }

  template <typename T>
  static void item(const std::string& field, const Json& json, T& value) {
    if constexpr (requires(Reader & io) { describe<Reader>(io, value); }) {
      Reader inner(json, field);
      describe<Reader>(inner, value);
    } else {
      read(field, json, value);
    }
  }
  template <typename T>
  static void item(const std::string& field, const Json& json, std::vector<T>& values) {
    if (!json.is_array()) refuse(field, "an array", json);
    values.clear();
    for (const Json& element : json) {
      const std::string place = fmt::format("{}[{}]", field, values.size());
      item(place, element, values.emplace_back());
    }
  }

  const Json& json_;
  std::string where_;
};

template <typename T>
Json written(const T& value) requires requires(Writer& io) {
  describe<Writer>(io, value);
}
{
  Writer inner;
  describe<Writer>(inner, value);
  return std::move(inner.json);
}
template <typename T>
Json written(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(written(value));
  return array;
}

}  // namespace

const char* phase_name(Phase phase) {
  return word(phase);
}
const char* directive_name(DirectiveKind kind) {
  return word(kind);
}

std::string Directive::tag() const {
  // An object's keys are sorted, so equal content is equal text.
  const std::string text = json_text(Json(*this));
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type
#define HOLDFAST_MESSAGE(Type)                      \
  void to_json(Json& json, const Type& message) {   \
    json = written(message);                        \
  }                                                 \
  void from_json(const Json& json, Type& message) { \
    Reader reader(json);                            \
    describe<Reader>(reader, message);              \
  }
HOLDFAST_MESSAGE(RegisterRequest)
HOLDFAST_MESSAGE(RegisterReply)
HOLDFAST_MESSAGE(WorkerStatus)
HOLDFAST_MESSAGE(DeviceLoad)
HOLDFAST_MESSAGE(Heartbeat)
HOLDFAST_MESSAGE(StatusReply)
HOLDFAST_MESSAGE(Directive)
HOLDFAST_MESSAGE(WorkerLost)
HOLDFAST_MESSAGE(Progress)
HOLDFAST_MESSAGE(FaultReport)
HOLDFAST_MESSAGE(CheckpointRecord)
HOLDFAST_MESSAGE(WorkerEvent)
HOLDFAST_MESSAGE(LogBatch)
HOLDFAST_MESSAGE(Problem)
#undef HOLDFAST_MESSAGE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace holdfast::rendezvous
