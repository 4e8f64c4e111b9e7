// The messages as JSON: message_fields.h has the fields of each, which are walked once to write and once to read.
#include "rendezvous/protocol/messages.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <stdexcept>
#include <type_traits>

#include "rendezvous/protocol/json_values.h"
#include "rendezvous/protocol/message_fields.h"

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

template <typename T>
Json written(const T& value) requires requires(Writer& io) {
  describe<Writer>(io, value);
};
template <typename T>
Json written(const std::vector<T>& values);

}  // namespace

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

namespace {

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
  return tag_of(*this);
}

std::string Directive::tag_of(const Json& directive) {
  // An object's keys are sorted, so equal content is equal text.
  const std::string text = json_text(directive);
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
HOLDFAST_MESSAGE(ProfileOrder)
HOLDFAST_MESSAGE(GenerationBegin)
HOLDFAST_MESSAGE(Directive)
HOLDFAST_MESSAGE(WorkerLost)
HOLDFAST_MESSAGE(Progress)
HOLDFAST_MESSAGE(FaultReport)
HOLDFAST_MESSAGE(CheckpointRecord)
HOLDFAST_MESSAGE(CheckpointReply)
HOLDFAST_MESSAGE(WorkerEvent)
HOLDFAST_MESSAGE(LogBatch)
HOLDFAST_MESSAGE(Problem)
#undef HOLDFAST_MESSAGE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace holdfast::rendezvous
