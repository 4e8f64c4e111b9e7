// The services that a program may talk to: one leads, the others stand by and take its place.
//
// All clients of a process that name the same servers share one of these, so that where one client finds the leader, all go.
// The highest term that an answer had is remembered: an answer of an older term comes from a service that was deposed, and does
// not count. So is which servers gave no answer of late: where another one still names such a server as the leader, that one is
// asked again, for it is the next to lead.
// Thread: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace holdfast::rendezvous {

// "10.0.0.1:7070/" -> "http://10.0.0.1:7070".
std::string normalized_server(std::string url);

class Servers {
 public:
  // "URL", "URL,URL", or "@FILE" with one in each line. An address without a scheme is http. Where the file cannot be read its
  // name stands for a server, whose unreachability then says so.
  static std::shared_ptr<Servers> of(const std::string& text);
  static std::vector<std::string> listed(const std::string& text);

  explicit Servers(std::vector<std::string> urls) : urls_(std::move(urls)), silences_(urls_.size()) {}
  size_t size() const { return urls_.size(); }
  std::string current() const;
  // Goes on to the next server; to `leader` if that is one of these. Nothing happens if another client has gone on from `from`
  // already.
  void leave(const std::string& from, const std::string& leader = "");
  // It took a request, or would take none, and said nothing for seconds.
  void note_silence(const std::string& of);
  // How often that was noted so far. A connection from before the last time is not to be used again: where answers do not
  // arrive, a request over it would still be heard, and a new connection is not.
  int64_t silences(const std::string& of) const;
  // False: an answer had a higher one before.
  bool note_term(int64_t term);
  // `tell` hears of each term that is higher than all before, on the thread that noted it; it outlives this object. To be set
  // before there are clients.
  void on_higher_term(std::function<void(int64_t)> tell) { tell_ = std::move(tell); }
  int64_t term() const;

 private:
  struct Silence {
    std::chrono::steady_clock::time_point until;
    int64_t times = 0;
  };
  bool is_silent(size_t server) const;

  const std::vector<std::string> urls_;
  mutable std::mutex mutex_;
  std::vector<Silence> silences_;  // of each, as far as is known
  size_t current_ = 0;
  int64_t term_ = 0;
  std::function<void(int64_t)> tell_;
};

}  // namespace holdfast::rendezvous
