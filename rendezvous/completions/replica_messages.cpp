#include "rendezvous/completions/replica_messages.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// The bits: a log-probability may be no number that JSON has.
uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}
float float_of(const Json& json) {
  return std::bit_cast<float>(json.get<uint32_t>());
}

Json json_of(const model::TokenChance& chance) {
  return Json::array({chance.id, bits_of(chance.log_probability)});
}
model::TokenChance chance_of(const Json& json) {
  return {json.at(0).get<int32_t>(), float_of(json.at(1))};
}

Json json_of(const model::WrittenToken& token) {
  Json json = {{"token", json_of(token.token)}};
  for (const model::TokenChance& other : token.alternatives) json["alternatives"].push_back(json_of(other));
  if (token.of_prompt) json["of_prompt"] = true;
  return json;
}
model::WrittenToken token_of(const Json& json) {
  model::WrittenToken token{.token = chance_of(json.at("token")), .of_prompt = json.value("of_prompt", false)};
  for (const Json& other : json.value("alternatives", Json::array())) token.alternatives.push_back(chance_of(other));
  return token;
}

Json json_of(const model::TextOptions& options) {
  return {{"max_tokens", options.max_tokens},
          {"temperature", options.temperature},
          {"top_k", options.top_k},
          {"top_p", options.top_p},
          {"seed", options.seed},
          {"choice", options.choice},
          {"drawn", options.drawn},
          {"repetition_penalty", options.repetition_penalty},
          {"presence_penalty", options.presence_penalty},
          {"frequency_penalty", options.frequency_penalty},
          {"stop_ids", options.stop_ids},
          {"vocabulary_limit", options.vocabulary_limit}};
}
model::TextOptions options_of(const Json& json) {
  model::TextOptions options;
  json.at("max_tokens").get_to(options.max_tokens);
  json.at("temperature").get_to(options.temperature);
  json.at("top_k").get_to(options.top_k);
  json.at("top_p").get_to(options.top_p);
  json.at("seed").get_to(options.seed);
  json.at("choice").get_to(options.choice);
  json.at("drawn").get_to(options.drawn);
  json.at("repetition_penalty").get_to(options.repetition_penalty);
  json.at("presence_penalty").get_to(options.presence_penalty);
  json.at("frequency_penalty").get_to(options.frequency_penalty);
  json.at("stop_ids").get_to(options.stop_ids);
  json.at("vocabulary_limit").get_to(options.vocabulary_limit);
  return options;
}

Json json_of(const model::Prompt& prompt) {
  return {{"tokens", prompt.tokens},
          {"written", prompt.written},
          {"options", json_of(prompt.options)},
          {"alternatives", prompt.alternatives},
          {"prompt_losses", prompt.prompt_losses}};
}
model::Prompt prompt_of(const Json& json) {
  model::Prompt prompt{.options = options_of(json.at("options"))};
  json.at("tokens").get_to(prompt.tokens);
  json.at("written").get_to(prompt.written);
  json.at("alternatives").get_to(prompt.alternatives);
  json.at("prompt_losses").get_to(prompt.prompt_losses);
  return prompt;
}

Json json_of(const StageAddress& address) {
  return {{"url", address.url}, {"pin", address.pin}, {"key", address.key}};
}
StageAddress address_of(const Json& json) {
  return {json.at("url").get<std::string>(), json.at("pin").get<std::string>(), json.at("key").get<std::string>()};
}

Json json_of(const StagePlace& place) {
  Json json = {{"stage", place.stage}, {"earlier", Json::array()}};
  for (const StagePlace::Earlier& earlier : place.earlier) {
    Json stages = Json::array();
    for (const StageAddress& address : earlier.stages) stages.push_back(json_of(address));
    json["earlier"].push_back({{"source", earlier.source}, {"stages", std::move(stages)}});
  }
  return json;
}
std::optional<StagePlace> place_in(const Json& message) {
  const auto found = message.find("place");
  if (found == message.end()) return std::nullopt;
  StagePlace place{.stage = found->at("stage").get<int64_t>()};
  for (const Json& entry : found->at("earlier")) {
    StagePlace::Earlier earlier{.source = entry.at("source").get<std::string>(), .stages = {}};
    for (const Json& address : entry.at("stages")) earlier.stages.push_back(address_of(address));
    place.earlier.push_back(std::move(earlier));
  }
  return place;
}

// Bodies come from outside: what does not fit is told as the rest of the protocol tells it.
template <typename Read>
void checked(const Read& read) {
  try {
    read();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace

void to_json(Json& json, const ReplicaReport& report) {
  json = {{"incarnation", report.incarnation},
          {"life", report.life},
          {"job", report.job},
          {"have", report.have},
          {"wait_ms", report.wait_ms},
          {"held", Json::array()},
          {"unreadable", Json::array()},
          {"unreached", report.unreached},
          {"texts_max", report.texts_max},
          {"pages", report.pages},
          {"pages_held", report.pages_held},
          {"tokenizer", report.tokenizer},
          {"wanted", report.wanted},
          {"news", Json::array()}};
  if (report.place) json["place"] = json_of(*report.place);
  for (const HeldModel& model : report.held) {
    Json held = {{"source", model.source},
                 {"fingerprint", model.fingerprint},
                 {"block_size", model.block_size},
                 {"vocab_size", model.vocab_size}};
    if (!model.address.url.empty()) held["address"] = json_of(model.address);
    json["held"].push_back(std::move(held));
  }
  for (const UnreadableModel& model : report.unreadable)
    json["unreadable"].push_back({{"source", model.source}, {"why", model.why}});
  for (const TextNews& news : report.news) {
    Json tokens = Json::array();
    for (const model::WrittenToken& token : news.tokens) tokens.push_back(json_of(token));
    json["news"].push_back({{"text", news.text}, {"first", news.first}, {"tokens", std::move(tokens)}, {"end", news.end}});
  }
}

void from_json(const Json& json, ReplicaReport& report) {
  checked([&] {
    json.at("incarnation").get_to(report.incarnation);
    json.at("job").get_to(report.job);
    report.life = json.value("life", "");
    report.have = json.value("have", int64_t{0});
    report.wait_ms = json.value("wait_ms", int64_t{0});
    report.texts_max = json.value("texts_max", int64_t{0});
    report.pages = json.value("pages", int64_t{0});
    report.pages_held = json.value("pages_held", int64_t{0});
    report.tokenizer = json.value("tokenizer", "");
    report.unreached = json.value("unreached", std::vector<std::string>());
    report.wanted = json.value("wanted", std::vector<std::string>());
    report.place = place_in(json);
    for (const Json& model : json.value("held", Json::array())) {
      report.held.push_back({.source = model.at("source").get<std::string>(),
                             .fingerprint = model.at("fingerprint").get<std::string>(),
                             .block_size = model.at("block_size").get<int64_t>(),
                             .vocab_size = model.at("vocab_size").get<int64_t>()});
      if (model.contains("address")) report.held.back().address = address_of(model["address"]);
    }
    for (const Json& model : json.value("unreadable", Json::array()))
      report.unreadable.push_back({model.at("source").get<std::string>(), model.at("why").get<std::string>()});
    for (const Json& entry : json.value("news", Json::array())) {
      TextNews news{.text = entry.at("text").get<int64_t>(), .first = entry.at("first").get<int64_t>()};
      for (const Json& token : entry.at("tokens")) news.tokens.push_back(token_of(token));
      news.end = entry.value("end", "");
      report.news.push_back(std::move(news));
    }
  });
}

void to_json(Json& json, const ReplicaOrders& orders) {
  json = {{"life", orders.life},
          {"orders", Json::array()},
          {"wanted", orders.wanted},
          {"tokenizer_wanted", orders.tokenizer_wanted}};
  if (orders.place) json["place"] = json_of(*orders.place);
  for (const ReplicaOrder& order : orders.orders) {
    Json one = {{"number", order.number}, {"text", order.text}, {"source", order.source}};
    if (!order.source.empty()) one["prompt"] = json_of(order.prompt);
    json["orders"].push_back(std::move(one));
  }
}

void from_json(const Json& json, ReplicaOrders& orders) {
  checked([&] {
    json.at("wanted").get_to(orders.wanted);
    json.at("life").get_to(orders.life);
    orders.tokenizer_wanted = json.value("tokenizer_wanted", false);
    orders.place = place_in(json);
    for (const Json& one : json.at("orders")) {
      ReplicaOrder order{.number = one.at("number").get<int64_t>(), .text = one.at("text").get<int64_t>()};
      one.at("source").get_to(order.source);
      if (!order.source.empty()) order.prompt = prompt_of(one.at("prompt"));
      orders.orders.push_back(std::move(order));
    }
  });
}

}  // namespace holdfast::rendezvous
