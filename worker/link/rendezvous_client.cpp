#include "worker/link/rendezvous_client.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/client/retry.h"

namespace holdfast::worker {
namespace {

using rendezvous::WorkerStatus;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPollWait = seconds(25);
constexpr milliseconds kAnswerTime = seconds(5);
constexpr milliseconds kLastStatusTime = seconds(1);

// Whether the change deserves a status at once, and not only with the next heartbeat.
bool is_news(const WorkerStatus& before, WorkerStatus now) {
  now.step = before.phase == now.phase ? before.step : now.step;
  return nlohmann::json(before) != nlohmann::json(now);
}

}  // namespace

RendezvousClient::RendezvousClient(ServiceLink& link, rendezvous::RegisterRequest registration, OnDirective on_directive,
                                   Load load)
    : link_(link),
      registration_(std::move(registration)),
      on_directive_(std::move(on_directive)),
      load_(std::move(load)),
      path_("/v1/workers/" + link.options().worker),
      poll_client_(link.make_client()) {
  status_.incarnation = link.options().incarnation;
  poller_ = std::thread([this] { follow_directives(); });
  reporter_ = std::thread([this] { report_status(); });
  if (load_) observer_ = std::thread([this] { read_load(); });
}

RendezvousClient::~RendezvousClient() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.raise("stopping");
  poll_client_->cancel();
  changed_.notify_all();
  poller_.join();
  reporter_.join();
  if (observer_.joinable()) observer_.join();
}

void RendezvousClient::publish(const WorkerStatus& status) {
  const std::lock_guard lock(mutex_);
  urgent_ |= is_news(status_, status);
  status_ = status;
  if (urgent_) changed_.notify_all();
}

void RendezvousClient::follow_directives() {
  while (!stop_.raised()) {
    bool registered = false;
    {
      const std::lock_guard lock(mutex_);
      registered = registered_;
    }
    if (!registered && !register_worker()) return;
    poll_once();
  }
}

bool RendezvousClient::register_worker() {
  rendezvous::BackOff back_off(link_.options().first_back_off, link_.options().longest_back_off);
  const std::string body = rendezvous::json_text(registration_);
  while (!stop_.raised()) {
    auto reply = link_.attempt(*poll_client_, "POST", "/v1/workers", body, kAnswerTime, true);
    if (reply) {
      if (note_registered(reply->body)) return true;
      stop_.wait_for(back_off.next());
      continue;
    }
    // If the service refuses a registration, it will refuse it again: another version, a bad name.
    if (!rendezvous::is_worth_repeating(reply.error())) link_.fail(ExitCode::kConfiguration, reply.error().message());
    stop_.wait_for(back_off.next());
  }
  return false;
}

bool RendezvousClient::note_registered(const std::string& body) {
  rendezvous::RegisterReply answer;
  try {
    answer = nlohmann::json::parse(body).get<rendezvous::RegisterReply>();
  } catch (const std::exception& error) {
    spdlog::error("the program that answers at {} is not a Holdfast service, it is asked again: {}", link_.options().server,
                  error.what());
    return false;
  }
  spdlog::info("registered with {} as {}", link_.options().server, answer.worker_id);
  link_.note_registered(answer.lease_ms);
  const std::lock_guard lock(mutex_);
  heartbeat_ = milliseconds(answer.heartbeat_ms);
  registered_ = urgent_ = true;
  changed_.notify_all();
  return true;
}

void RendezvousClient::poll_once() {
  std::string have;
  {
    const std::lock_guard lock(mutex_);
    have = tag_;
  }
  const std::string query =
      "?incarnation=" + link_.options().incarnation + "&have=" + have + "&wait_ms=" + std::to_string(kPollWait.count());
  auto reply = link_.attempt(*poll_client_, "GET", path_ + "/directive" + query, "", kPollWait + kAnswerTime, true);
  if (reply) {
    if (reply->status != 204) take_directive(reply->body);
    return;
  }
  if (reply.error().cancelled) return;
  if (reply.error().problem.status == 404 && !reply.error().unreachable) return ask_to_register();
  if (!rendezvous::is_worth_repeating(reply.error())) spdlog::error("asked for directives: {}", reply.error().message());
  stop_.wait_for(link_.options().first_back_off * 2);
}

void RendezvousClient::take_directive(const std::string& body) {
  rendezvous::Directive directive;
  std::string tag;
  try {
    const auto json = nlohmann::json::parse(body);
    directive = json.get<rendezvous::Directive>();
    tag = rendezvous::Directive::tag_of(json);
  } catch (const std::exception& error) {
    spdlog::error("a directive cannot be read, it is asked for again: {}", error.what());
    stop_.wait_for(seconds(1));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (tag == tag_) return;
    tag_ = tag;
    other_tags_ = 0;
  }
  on_directive_(directive);
  // The service asks whether this worker lives, with a fence or a question: it is answered at once, whatever the train thread
  // does.
  const std::lock_guard lock(mutex_);
  urgent_ = true;
  changed_.notify_all();
}

void RendezvousClient::report_status() {
  const auto client = link_.make_client();
  auto next_heartbeat = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait_until(lock, next_heartbeat, [this] { return stopping_ || (registered_ && urgent_); });
    const bool last = stopping_;
    if (!registered_ && !last) {
      next_heartbeat = std::chrono::steady_clock::now() + heartbeat_;
      continue;
    }
    if (last && !(registered_ && urgent_)) return;
    urgent_ = false;
    const rendezvous::Heartbeat heartbeat{status_, last ? rendezvous::DeviceLoad() : last_load_};
    next_heartbeat = std::chrono::steady_clock::now() + heartbeat_;
    lock.unlock();
    post_status(*client, heartbeat, last ? kLastStatusTime : kAnswerTime);
    lock.lock();
    if (last) return;
  }
}

// A driver can take seconds to answer, while another program starts on its device, say. A status is due within half of one when
// the service asks for it, so that it does not wait for this.
void RendezvousClient::read_load() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const rendezvous::DeviceLoad load = load_();
    lock.lock();
    last_load_ = load;
    changed_.wait_for(lock, heartbeat_, [this] { return stopping_; });
  }
}

void RendezvousClient::post_status(rendezvous::HttpClient& client, const rendezvous::Heartbeat& heartbeat,
                                   milliseconds timeout) {
  auto reply = link_.attempt(client, "POST", path_ + "/status", rendezvous::json_text(heartbeat), timeout, true);
  if (reply) {
    try {
      note_tag(nlohmann::json::parse(reply->body).get<rendezvous::StatusReply>().directive_tag);
    } catch (const std::exception& error) {
      spdlog::error("the answer to a status cannot be read: {}", error.what());
    }
  } else if (reply.error().problem.status == 404 && !reply.error().unreachable) {
    ask_to_register();
  } else if (!rendezvous::is_worth_repeating(reply.error())) {
    spdlog::error("reported the status: {}", reply.error().message());
  } else {
    const std::lock_guard lock(mutex_);
    urgent_ = urgent_ || stopping_;  // the next heartbeat carries it
  }
}

// The long-poll returns by itself when the directive changes. Two replies in a row that name a newer tag mean that it hangs.
void RendezvousClient::note_tag(const std::string& tag) {
  const std::lock_guard lock(mutex_);
  other_tags_ = tag == tag_ ? 0 : other_tags_ + 1;
  if (other_tags_ < 2) return;
  other_tags_ = 0;
  poll_client_->cancel();
}

void RendezvousClient::ask_to_register() {
  const std::lock_guard lock(mutex_);
  if (registered_) spdlog::warn("the service does not know this worker, it registers again");
  registered_ = false;
  tag_.clear();
  poll_client_->cancel();
}

}  // namespace holdfast::worker
