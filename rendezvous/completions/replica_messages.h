// The messages between the service and a replica, which writes texts for it; replica_messages.cpp has their JSON.
//
//   POST /v1/workers/{id}/texts   ReplicaReport -> ReplicaOrders
//
// A replica has one request open that waits for orders, and sends what its texts got with others, which do not wait. Lost and
// repeated messages change nothing: orders are numbered, and come again until they are acknowledged (`have`); news of a text
// say where in it they begin. Numbers are those of one life of the service (`life`): a replica that hears of another gives up
// all texts, and news of an earlier one are dropped. Floats keep their bits. Thread: any; everything here is a value or a pure
// function.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/decode/text_engine.h"

namespace holdfast::rendezvous {

// Where a stage, which has some layers of a model, takes passes from whoever knows its key.
struct StageAddress {
  std::string url;
  std::string pin = {};  // its certificate's key, as HttpClient::trust_only has it; "": it is signed, or there is none
  std::string key = {};  // the bearer token; "": none is asked for
  bool operator==(const StageAddress&) const = default;
};
// The place of a worker where a model is divided among several (stage_groups.h).
struct StagePlace {
  int64_t stage = 0;  // it has the layers of this one; 0: the first
  struct Earlier {
    std::string source;
    std::vector<StageAddress> stages;  // from the first up to the last but one
    bool operator==(const Earlier&) const = default;
  };
  std::vector<Earlier> earlier = {};  // of the last stage: for each model, where the stages before it are all ready
  bool operator==(const StagePlace&) const = default;
};

// A model that a replica has ready, or some layers of. `source`: in the words of JobSpec::init_from.
struct HeldModel {
  std::string source, fingerprint;
  int64_t block_size = 0, vocab_size = 0;
  StageAddress address = {};  // of a stage but the last
  bool operator==(const HeldModel&) const = default;
};
// A model that it was to have.
struct UnreadableModel {
  std::string source, why;
};

// Tokens of a text, the prompt's own with them where they were asked for (Prompt::prompt_losses).
struct TextNews {
  int64_t text = 0;
  int64_t first = 0;  // so many came before these, by this order
  std::vector<model::WrittenToken> tokens = {};
  std::string end = {};  // "stop", "length"; "given_back": another replica is to write it; "": not yet
};

struct ReplicaReport {
  std::string incarnation, job;
  std::string life = {};              // of the service, as it said last; "": it has said nothing yet
  int64_t have = 0;                   // the newest order that came
  int64_t wait_ms = 0;                // for another one; 0: none are asked for
  int64_t pages = 0, pages_held = 0;  // of keys and values, of all models here
  // Of a report that waits:
  int64_t texts_max = 0;       // that it writes at once
  std::string tokenizer = {};  // the object of the job that has the tokenizer's file
  std::vector<HeldModel> held = {};
  std::vector<UnreadableModel> unreadable = {};
  std::vector<std::string> unreached = {};  // addresses of stages before this one, of its group, that it cannot work with
  std::vector<std::string> wanted = {};     // as it heard last; it is answered at once where that is otherwise now
  std::optional<StagePlace> place = {};     // likewise, of a model that is divided
  // Of one that does not:
  std::vector<TextNews> news = {};
};

struct ReplicaOrder {
  int64_t number = 0;  // of the order: they grow
  int64_t text = 0;
  std::string source = {};  // "": the text is not wanted any more
  model::Prompt prompt = {};
};

struct ReplicaOrders {
  std::string life = {};
  std::vector<ReplicaOrder> orders = {};
  std::vector<std::string> wanted = {};  // sources of models that it is to have ready; others it may drop
  std::optional<StagePlace> place = {};  // of a model that is divided
  bool tokenizer_wanted = false;         // the service does not have the object
};

// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type
#define HOLDFAST_REPLICA_MESSAGE(Type)        \
  void to_json(nlohmann::json&, const Type&); \
  void from_json(const nlohmann::json&, Type&);
HOLDFAST_REPLICA_MESSAGE(ReplicaReport)
HOLDFAST_REPLICA_MESSAGE(ReplicaOrders)
#undef HOLDFAST_REPLICA_MESSAGE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace holdfast::rendezvous
