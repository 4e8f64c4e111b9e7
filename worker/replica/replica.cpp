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
constexpr seconds kTryAgain{5};  // a model that could not be read, a tokenizer that could not be given
constexpr int kFirstTries = 3, kLooksForAnother = 10;
constexpr size_t kNewsBytes = 512 << 10;  // half of what the service takes in a body

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
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [source, model] : models_) model->give_up();
  }
  for (std::jthread* thread : {&orders_, &sender_, &keeper_, &stages_}) thread->request_stop();
  orders_client_->cancel();
  news_client_->cancel();
  for (std::jthread* thread : {&orders_, &sender_, &keeper_, &stages_}) {
    if (thread->joinable()) thread->join();
  }
  models_.clear();  // their engines speak to the rest
}

tl::expected<std::unique_ptr<Replica>, std::string> Replica::prepare(ReplicaSetup setup, const std::atomic<bool>& stop) {
  std::unique_ptr<Replica> replica(new Replica(std::move(setup)));
  if (auto read = replica->read_tokenizer(); !read) return tl::unexpected(std::move(read.error()));
  replica->ask_what_is_wanted(stop);
  if (replica->wanted_.empty()) return tl::unexpected<std::string>("it was not told which model to serve");
  DataPlaces places = replica->setup_.places;
  places.stop = &stop;
  std::string source = replica->wanted_.front();  // the others are read beside those that write
  auto ready = replica->read(source, places);
  for (int tries = 1; !ready && tries < kFirstTries && replica->is_another_wanted(source, stop); ++tries) {
    spdlog::warn("{} cannot be served, {} is read: {}", source, replica->wanted_.front(), ready.error());
    source = replica->wanted_.front();
    ready = replica->read(source, places);
  }
  if (!ready) return tl::unexpected(std::move(ready.error()));
  replica->digest_ = (*ready)->digest();
  replica->models_[source] = *std::move(ready);
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

void Replica::ask_what_is_wanted(const std::atomic<bool>& stop) {
  while (!stop) {
    const std::string body = rendezvous::json_text(report(1));
    auto reply = setup_.link.attempt(*orders_client_, "POST", path_, body, kAnswerTime, true);
    if (reply) {
      const auto orders = orders_in(reply->body);
      if (orders && !orders->wanted.empty() && (setup_.spec.stages == 1 || orders->place)) {
        wanted_ = orders->wanted;
        place_ = orders->place;
        return;
      }
    }
    std::this_thread::sleep_for(milliseconds(100));
  }
}

// A checkpoint that could not be read may have been removed, and its job tells the service of that a little later.
bool Replica::is_another_wanted(const std::string& source, const std::atomic<bool>& stop) {
  if (setup_.spec.follow != "on") return false;
  for (int looks = 0; looks < kLooksForAnother && !stop; ++looks) {
    ask_what_is_wanted(stop);
    if (wanted_.front() != source) return true;
    std::this_thread::sleep_for(milliseconds(500));
  }
  return false;
}

int64_t Replica::stage() const {
  return place_ ? place_->stage : 0;
}

tl::expected<std::shared_ptr<ReadyModel>, std::string> Replica::read(const std::string& source, const DataPlaces& places) {
  int64_t of_this_worker = 0;
  {
    const std::lock_guard lock(mutex_);
    of_this_worker = stage();
  }
  const auto on_lost = [this] {
    const std::lock_guard lock(mutex_);
    look_again();
    orders_client_->cancel();  // its next report says so
  };
  const auto on_failed = [this](const std::string& why) {
    setup_.link.fail(ExitCode::kFailed, fmt::format("the layers that are here failed: {}", why));
  };
  return ReadyModel::read(source, of_this_worker,
                          {.spec = setup_.spec,
                           .make_ops = setup_.make_ops,
                           .memory = setup_.memory,
                           .host = setup_.host,
                           .ports = setup_.ports,
                           .on_lost = on_lost,
                           .on_failed = on_failed},
                          places);
}

std::string Replica::digest() const {
  return setup_.spec.follow == "on" ? "serving" : digest_;
}

void Replica::begin_threads() {
  orders_ = std::jthread([this](const std::stop_token& stop) { follow_orders(stop); });
  sender_ = std::jthread([this](const std::stop_token& stop) { send_news(stop); });
  keeper_ = std::jthread([this](const std::stop_token& stop) { keep_models(stop); });
  if (setup_.spec.stages > 1) stages_ = std::jthread([this](const std::stop_token& stop) { keep_stages(stop); });
}

rendezvous::ReplicaReport Replica::report(int64_t wait_ms) const {
  rendezvous::ReplicaReport report{.incarnation = setup_.link.options().incarnation,
                                   .job = setup_.job,
                                   .life = book_.life(),
                                   .have = book_.have(),
                                   .wait_ms = wait_ms,
                                   .texts_max = ReadyModel::kTextsMax,
                                   .wanted = wanted_,
                                   .place = place_};
  if (tokenizer_) report.tokenizer = std::string("tokenizer/") + tokenizer_->file_name();
  for (const auto& [source, model] : models_) {
    if (model->is_ready() && model->stage() == stage()) report.held.push_back(model->held());
  }
  for (const auto& [source, unreadable] : unreadable_) report.unreadable.push_back({source, unreadable.why});
  for (const auto& [url, until] : unreached_) {
    if (std::chrono::steady_clock::now() < until) report.unreached.push_back(url);
  }
  add_load(report);
  return report;
}

void Replica::add_load(rendezvous::ReplicaReport& report) const {
  for (const auto& [source, model] : models_) {
    const model::TextEngine::Load load = model->load();
    report.pages += load.pages;
    report.pages_held += load.pages_held;
  }
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
    if (orders.place) place_ = orders.place;
    look_again();
  }
  if (orders.tokenizer_wanted) bring_tokenizer();
  for (const rendezvous::ReplicaOrder& order : orders.orders) carry_out(order);
}

void Replica::bring_tokenizer() {
  const std::string& bytes = tokenizer_->file_bytes();
  const auto put = setup_.objects->put(std::string("tokenizer/") + tokenizer_->file_name(), std::as_bytes(std::span(bytes)));
  if (put) return;
  spdlog::warn("the tokenizer could not be given to the service, it is tried again: {}", put.error().message);
  stopping_.wait_for(kTryAgain);
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
                           : model->submit({order.prompt, on_progress});
  if (!refused) return;
  spdlog::warn("a text is given back: {}", refused->why);
  const std::lock_guard lock(mutex_);
  book_.give_back(serial);
  changed_.notify_all();
}

// On an engine's thread.
bool Replica::hear(int64_t serial, const std::vector<model::WrittenToken>& tokens, TextOutcome outcome) {
  const std::lock_guard lock(mutex_);
  if (outcome == TextOutcome::kLost) book_.give_back(serial);
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
      news.news = book_.take_news(kNewsBytes);
      add_load(news);
    }
    const Delivery delivery = setup_.link.deliver(*news_client_, path_, rendezvous::json_text(news), stopping_);
    if (delivery.how == Delivery::How::kStopped) return;
    // After that the service takes this replica for one that lacks their models: a report says what it has.
    if (std::ranges::any_of(news.news, [](const auto& of_text) { return of_text.end == "given_back"; }))
      orders_client_->cancel();
    if (delivery.how != Delivery::How::kRejected) continue;
    spdlog::warn("news of texts were refused, others go on with them: {}", delivery.problem.detail);
    const std::lock_guard lock(mutex_);
    if (book_.life() == news.life) book_.give_back_what_was_refused(news.news);
  }
}

// --- models

void Replica::look_again() {
  ++changes_;
  changed_.notify_all();
}

void Replica::keep_models(const std::stop_token& stop) {
  name_thread("models");
  for (int64_t seen = 0; !stop.stop_requested();) {
    std::optional<std::string> next;
    {
      std::unique_lock lock(mutex_);
      next = missing();
      if (!next) changed_.wait_for(lock, stop, seconds(1), [&] { return changes_ != seen; });
      seen = changes_;
    }
    drop_models();  // first: there is room for two
    if (next) read_model(*next, stop);
  }
}

// A model that could not be read comes after those that were not tried since.
std::optional<std::string> Replica::missing() const {
  const auto tried = [this](const std::string& source) {
    const auto found = unreadable_.find(source);
    return found == unreadable_.end() ? int64_t{0} : found->second.tried;
  };
  std::optional<std::string> next;
  for (const std::string& source : wanted_) {
    if (!models_.contains(source) && (!next || tried(source) < tried(*next))) next = source;
  }
  return next;
}

void Replica::read_model(const std::string& source, const std::stop_token& stop) {
  tl::expected<std::shared_ptr<ReadyModel>, std::string> ready;
  try {
    ready = read(source, setup_.places);
  } catch (const kernels::DeviceFailure& failure) {  // nothing works on it any more, in this process
    return setup_.link.fail(ExitCode::kFailed, failure.what());
  }
  std::unique_lock lock(mutex_);
  if (ready) {
    models_[source] = *std::move(ready);
    unreadable_.erase(source);
    spdlog::info("has {} ready", source);
    look_again();
  } else {
    Unreadable& unreadable = unreadable_[source];
    if (unreadable.why != ready.error()) spdlog::warn("{} cannot be served: {}", source, ready.error());
    unreadable = {.why = ready.error(), .tried = ++tries_};
  }
  orders_client_->cancel();  // its next report says so
  // A model that could not be read waits; others are tried at once.
  const auto next = missing();
  if (next && unreadable_.contains(*next)) changed_.wait_for(lock, stop, kTryAgain, [] { return false; });
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
