#include "worker/replica/replica.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "rendezvous/protocol/messages.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using rendezvous::ReplicaOrders;
using rendezvous::TextOutcome;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPollWait = seconds(20), kAnswerTime = seconds(5);
constexpr seconds kTryAgain{5};  // a model that could not be read

std::optional<ReplicaOrders> orders_in(const std::string& body) {
  try {
    return nlohmann::json::parse(body).get<ReplicaOrders>();
  } catch (const std::exception& error) {
    spdlog::error("orders for texts cannot be read, they are asked for again: {}", error.what());
    return {};
  }
}

}  // namespace

Replica::Replica(ReplicaSetup setup)
    : setup_(std::move(setup)),
      path_("/v1/workers/" + setup_.link.options().worker + "/texts"),
      orders_client_(setup_.link.make_client()),
      news_client_(setup_.link.make_client()) {
  setup_.places.stop = stopping_.flag();
}

Replica::~Replica() {
  stopping_.raise("the job is given up");
  for (std::jthread* thread : {&orders_, &sender_, &keeper_}) thread->request_stop();
  orders_client_->cancel();
  news_client_->cancel();
  for (std::jthread* thread : {&orders_, &sender_, &keeper_}) {
    if (thread->joinable()) thread->join();
  }
}

tl::expected<std::unique_ptr<Replica>, std::string> Replica::prepare(ReplicaSetup setup, const std::atomic<bool>& stop) {
  std::unique_ptr<Replica> replica(new Replica(std::move(setup)));
  if (auto read = replica->read_tokenizer(); !read) return tl::unexpected(std::move(read.error()));
  replica->wanted_ = replica->ask_what_is_wanted(stop);
  if (replica->wanted_.empty()) return tl::unexpected<std::string>("it was not told which model to serve");
  DataPlaces places = replica->setup_.places;
  places.stop = &stop;
  for (const std::string& source : replica->wanted_) {
    auto ready = ReadyModel::read(source, replica->setup_.spec, replica->setup_.make_ops, places);
    if (!ready) return tl::unexpected(std::move(ready.error()));
    replica->models_[source] = *std::move(ready);
    break;  // the first is what requests are answered with; the others are read beside it
  }
  replica->begin_threads();
  return replica;
}

tl::expected<void, std::string> Replica::read_tokenizer() {
  const auto path = resolve_data_path(setup_.spec.tokenizer, setup_.places.data_root);
  if (!path) return tl::unexpected("tokenizer: " + path.error());
  auto tokenizer = model::Tokenizer::load(*path);
  if (!tokenizer) return tl::unexpected("tokenizer: " + tokenizer.error());
  if ((*tokenizer)->vocab_size() > setup_.spec.vocab_size) {
    return tl::unexpected(fmt::format("tokenizer: {} has {} tokens, and the model {}: it was trained with another tokenizer",
                                      *path, (*tokenizer)->vocab_size(), setup_.spec.vocab_size));
  }
  tokenizer_ = *std::move(tokenizer);
  return {};
}

std::vector<std::string> Replica::ask_what_is_wanted(const std::atomic<bool>& stop) {
  while (!stop) {
    const std::string body = rendezvous::json_text(report(1));
    auto reply = setup_.link.attempt(*orders_client_, "POST", path_, body, kAnswerTime, true);
    if (reply) {
      const auto orders = orders_in(reply->body);
      if (orders && !orders->wanted.empty()) return orders->wanted;
    }
    std::this_thread::sleep_for(milliseconds(100));
  }
  return {};
}

std::string Replica::digest() const {
  const std::lock_guard lock(mutex_);
  return setup_.spec.follow == "on" ? "serving" : models_.begin()->second->digest();
}

void Replica::begin_threads() {
  orders_ = std::jthread([this](const std::stop_token& stop) { follow_orders(stop); });
  sender_ = std::jthread([this](const std::stop_token& stop) { send_news(stop); });
  keeper_ = std::jthread([this](const std::stop_token& stop) { keep_models(stop); });
}

rendezvous::ReplicaReport Replica::report(int64_t wait_ms) const {
  rendezvous::ReplicaReport report{.incarnation = setup_.link.options().incarnation,
                                   .job = setup_.job,
                                   .life = book_.life(),
                                   .have = book_.have(),
                                   .wait_ms = wait_ms,
                                   .texts_max = ReadyModel::kTextsMax,
                                   .wanted = wanted_};
  if (tokenizer_) report.tokenizer = std::string("tokenizer/") + tokenizer_->file_name();
  for (const auto& [source, model] : models_) report.held.push_back(model->held());
  for (const auto& [source, why] : unreadable_) report.unreadable.push_back({source, why});
  return report;
}

// --- orders

void Replica::follow_orders(const std::stop_token& stop) {
  name_thread("orders");
  while (!stop.stop_requested()) {
    std::string body;
    {
      const std::lock_guard lock(mutex_);
      body = rendezvous::json_text(report(kPollWait.count()));
    }
    const auto reply = setup_.link.attempt(*orders_client_, "POST", path_, body, kPollWait + kAnswerTime, true);
    if (reply) {
      if (const auto orders = orders_in(reply->body)) take(*orders);
    } else if (!reply.error().cancelled) {
      stopping_.wait_for(setup_.link.options().first_back_off * 2);
    }
  }
}

void Replica::take(const ReplicaOrders& orders) {
  {
    const std::lock_guard lock(mutex_);
    book_.hear_life(orders.life);
    wanted_ = orders.wanted;
    changed_.notify_all();
  }
  if (orders.tokenizer_wanted) bring_tokenizer();
  for (const rendezvous::ReplicaOrder& order : orders.orders) carry_out(order);
}

void Replica::bring_tokenizer() {
  const std::string& bytes = tokenizer_->file_bytes();
  const auto put = setup_.objects->put(std::string("tokenizer/") + tokenizer_->file_name(), std::as_bytes(std::span(bytes)));
  if (!put) spdlog::warn("the tokenizer could not be given to the service, it is tried again: {}", put.error().message);
}

void Replica::carry_out(const rendezvous::ReplicaOrder& order) {
  std::shared_ptr<ReadyModel> model;
  int64_t serial = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto begun = book_.take(order);
    if (!begun) return;
    serial = *begun;
    const auto found = models_.find(order.source);
    if (found != models_.end()) model = found->second;
  }
  const auto on_progress = [this, serial](const std::vector<model::WrittenToken>& tokens, TextOutcome outcome) {
    return hear(serial, tokens, outcome);
  };
  const auto refused = model == nullptr
                           ? std::optional(rendezvous::TextRefused{.is_busy = true, .why = order.source + " went meanwhile"})
                           : model->texts().submit({{order.prompt, on_progress}}, std::chrono::hours(24));
  if (!refused) return;
  spdlog::warn("a text is given back: {}", refused->why);
  const std::lock_guard lock(mutex_);
  book_.give_back(serial);
  changed_.notify_all();
}

// On an engine's thread.
bool Replica::hear(int64_t serial, const std::vector<model::WrittenToken>& tokens, TextOutcome outcome) {
  const std::lock_guard lock(mutex_);
  const bool is_wanted = book_.add(serial, tokens, outcome);
  if (book_.has_news()) changed_.notify_all();
  return is_wanted;
}

// --- news

void Replica::send_news(const std::stop_token& stop) {
  name_thread("news");
  while (true) {
    rendezvous::ReplicaReport news{.incarnation = setup_.link.options().incarnation, .job = setup_.job};
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return book_.has_news(); })) return;
      news.life = book_.life();
      news.news = book_.take_news();
    }
    const Delivery delivery = setup_.link.deliver(*news_client_, path_, rendezvous::json_text(news), stopping_);
    if (delivery.how == Delivery::How::kStopped) return;
    // The service gives these texts to others.
    if (delivery.how == Delivery::How::kRejected) spdlog::warn("news of texts were refused: {}", delivery.problem.detail);
  }
}

// --- models

void Replica::keep_models(const std::stop_token& stop) {
  name_thread("models");
  while (!stop.stop_requested()) {
    std::string missing;
    {
      std::unique_lock lock(mutex_);
      const auto is_missing = [this](const std::string& source) { return !models_.contains(source); };
      const auto found = std::ranges::find_if(wanted_, is_missing);
      if (found != wanted_.end()) missing = *found;
      if (missing.empty()) changed_.wait_for(lock, stop, seconds(1), [] { return false; });
    }
    if (!missing.empty()) read_model(missing, stop);
    drop_models();
  }
}

void Replica::read_model(const std::string& source, const std::stop_token& stop) {
  auto ready = ReadyModel::read(source, setup_.spec, setup_.make_ops, setup_.places);
  std::unique_lock lock(mutex_);
  if (ready) {
    models_[source] = *std::move(ready);
    unreadable_.erase(source);
    spdlog::info("has {} ready", source);
  } else {
    if (unreadable_[source] != ready.error()) spdlog::warn("{} cannot be served: {}", source, ready.error());
    unreadable_[source] = ready.error();
  }
  orders_client_->cancel();  // its next report says so
  if (unreadable_.contains(source)) changed_.wait_for(lock, stop, kTryAgain, [] { return false; });
}

void Replica::drop_models() {
  std::vector<std::shared_ptr<ReadyModel>> dropped;  // their engines end without the lock
  const std::lock_guard lock(mutex_);
  for (auto at = models_.begin(); at != models_.end();) {
    const bool is_wanted = std::ranges::find(wanted_, at->first) != wanted_.end();
    if (is_wanted || book_.writes_with(at->first) || models_.size() == 1) {
      ++at;
      continue;
    }
    dropped.push_back(std::move(at->second));
    at = models_.erase(at);
    orders_client_->cancel();
  }
  std::erase_if(unreadable_, [&](const auto& entry) { return std::ranges::find(wanted_, entry.first) == wanted_.end(); });
}

}  // namespace holdfast::worker
