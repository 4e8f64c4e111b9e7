#include "ops/cli/netcheck/exchange.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <memory>
#include <vector>

namespace holdfast::ops {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kName = "holdfast-netcheck ", kVersion = "1", kRefused = "refused: ";
constexpr size_t kBlock = 64 * 1024;
constexpr size_t kLineMax = 200;
constexpr int64_t kPingsAtFirst = 5, kPingsWanted = 200, kPingsMax = 10'000;
constexpr int kCommandsMax = 16;
constexpr milliseconds kGreeting{5'000};           // for the first line
constexpr milliseconds kExchangePatience{10'000};  // for what follows, and on top of a phase's own time: buffers must drain
constexpr double kRampShare = 0.2;

using Block = std::array<char, kBlock>;

NetClock::time_point in(milliseconds time) {
  return NetClock::now() + time;
}
double seconds_between(NetClock::time_point from, NetClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class Sender {
 public:
  explicit Sender(milliseconds time) : end_(in(time)) {}
  bool done() const { return done_; }

  NetResult<void> step(const Socket& peer) {
    if (offset_ == 0) block_[0] = last_ = NetClock::now() >= end_;
    const ssize_t sent = send(peer.fd(), block_.data() + offset_, kBlock - offset_, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) return {};
      return tl::unexpected(failure_text("the connection broke", errno));
    }
    offset_ = (offset_ + static_cast<size_t>(sent)) % kBlock;
    done_ = last_ && offset_ == 0;
    return {};
  }

 private:
  NetClock::time_point end_;
  Block block_{};
  size_t offset_ = 0;
  bool last_ = false, done_ = false;
};

class Receiver {
 public:
  explicit Receiver(milliseconds time) : ramp_(std::chrono::duration_cast<milliseconds>(time * kRampShare)) {}
  bool done() const { return done_; }

  NetResult<void> step(const Socket& peer) {
    const ssize_t got = recv(peer.fd(), block_.data(), kBlock - offset_, 0);  // never a byte behind the last block
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (got < 0) return tl::unexpected(failure_text("the connection broke", errno));
    if (got == 0) return tl::unexpected(std::string("the other side closed the connection in the middle of a measurement"));
    if (offset_ == 0) {
      if (block_[0] != 0 && block_[0] != 1) return tl::unexpected(std::string("the other side sent what was not agreed"));
      last_ = block_[0] == 1;
    }
    count(static_cast<double>(got));
    offset_ = (offset_ + static_cast<size_t>(got)) % kBlock;
    done_ = last_ && offset_ == 0;
    return {};
  }

  // Bytes a second from the ramp's end to the last byte; of the whole when that is all there was.
  double rate() const {
    const double counted_s = seconds_between(counted_from_, newest_), whole_s = seconds_between(first_, newest_);
    if (counted_ > 0 && counted_s > 0) return counted_ / counted_s;
    return whole_s > 0 ? total_ / whole_s : 0;
  }

 private:
  void count(double bytes) {
    newest_ = NetClock::now();
    if (total_ == 0) {
      first_ = newest_;  // bytes that came with this block were sent before it: they do not count
      total_ = bytes;
      return;
    }
    total_ += bytes;
    if (counted_from_ != NetClock::time_point{}) {
      counted_ += bytes;
    } else if (newest_ >= first_ + ramp_) {
      counted_from_ = newest_;
    }
  }

  milliseconds ramp_;
  Block block_{};
  size_t offset_ = 0;
  bool last_ = false, done_ = false;
  double total_ = 0, counted_ = 0;
  NetClock::time_point first_{}, counted_from_{}, newest_{};
};

// Sends, receives or both until the last blocks are through. Returns the rate of the received bytes, 0 when none were expected.
NetResult<double> move_blocks(const Socket& peer, bool sends, bool receives, milliseconds time) {
  const auto deadline = in(time + kExchangePatience);
  const auto sender = std::make_unique<Sender>(time);
  const auto receiver = std::make_unique<Receiver>(time);
  for (;;) {
    const bool to_send = sends && !sender->done(), to_receive = receives && !receiver->done();
    if (!to_send && !to_receive) return receives ? receiver->rate() : 0;
    const int events = (to_send ? POLLOUT : 0) | (to_receive ? POLLIN : 0);
    if (auto ready = wait_for(peer, static_cast<short>(events), deadline); !ready) return tl::unexpected(ready.error());
    if (to_send) {
      if (auto moved = sender->step(peer); !moved) return tl::unexpected(moved.error());
    }
    if (to_receive) {
      if (auto moved = receiver->step(peer); !moved) return tl::unexpected(moved.error());
    }
    // A side that always has something to move is bounded, too.
    if (NetClock::now() >= deadline) return tl::unexpected(std::string("a measurement did not end in time"));
  }
}

// --- the one who asks

// The median of so many round trips.
NetResult<double> ping(const Socket& peer, int64_t count) {
  if (auto asked = write_all(peer, fmt::format("ping {}\n", count), in(kExchangePatience)); !asked)
    return tl::unexpected(asked.error());
  std::vector<double> trips;
  const auto deadline = in(kExchangePatience);
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = NetClock::now();
    if (auto sent = write_all(peer, "\n", deadline); !sent) return tl::unexpected(sent.error());
    if (auto back = read_line(peer, 0, deadline); !back) return tl::unexpected(back.error());
    trips.push_back(seconds_between(begin, NetClock::now()));
  }
  std::ranges::sort(trips);
  return trips[trips.size() / 2];
}

// A few tell how many a second has room for: the other side gives all of a command's pings one deadline.
NetResult<double> measure_round_trip(const Socket& peer) {
  const auto roughly = ping(peer, kPingsAtFirst);
  if (!roughly) return roughly;
  return ping(peer, pings_for(*roughly));
}

NetResult<double> reported_rate(const Socket& peer) {
  const auto line = read_line(peer, kLineMax, in(kExchangePatience));
  if (!line) return tl::unexpected(line.error());
  double rate = 0;
  const auto parsed = std::from_chars(line->data(), line->data() + line->size(), rate);
  if (parsed.ec != std::errc{} || !std::isfinite(rate) || rate < 0)
    return tl::unexpected(fmt::format("the other side reported {} for a rate", *line));
  return rate;
}

struct Rates {
  double there = 0, back = 0;
};
NetResult<Rates> measure(const Socket& peer, const char* direction, bool sends, bool receives, milliseconds time) {
  const std::string command = fmt::format("move {} {}\n", direction, time.count());
  if (auto asked = write_all(peer, command, in(kExchangePatience)); !asked) return tl::unexpected(asked.error());
  const auto back = move_blocks(peer, sends, receives, time);
  if (!back) return tl::unexpected(back.error());
  if (!sends) return Rates{0, *back};
  const auto there = reported_rate(peer);
  if (!there) return tl::unexpected(there.error());
  return Rates{*there, *back};
}

NetResult<void> greet(const Socket& peer) {
  const std::string greeting = fmt::format("{}{}\n", kName, kVersion);
  if (auto said = write_all(peer, greeting, in(kExchangePatience)); !said) return said;
  const auto answer = read_line(peer, kLineMax, in(kExchangePatience));
  if (!answer) {
    return tl::unexpected(
        fmt::format("{}: is `holdfast netcheck --listen` running there, and not busy with another check?", answer.error()));
  }
  if (*answer + "\n" == greeting) return {};
  if (answer->starts_with(kRefused)) return tl::unexpected(*answer);
  return tl::unexpected(std::string("whoever listens there is no `holdfast netcheck --listen`"));
}

// --- the one who answers

NetResult<void> check_greeting(const Socket& peer) {
  const auto refuse = [&](std::string why) -> NetResult<void> {
    // A refused peer may be gone already.
    if (auto told = write_all(peer, fmt::format("{}{}\n", kRefused, why), in(kGreeting)); !told) why += "; " + told.error();
    return tl::unexpected(std::move(why));
  };
  const auto line = read_line(peer, kLineMax, in(kGreeting));
  if (!line) return refuse(line.error());
  if (!line->starts_with(kName)) return refuse("this port answers `holdfast netcheck` and nobody else");
  if (line->substr(kName.size()) != kVersion) {
    return refuse(
        fmt::format("this node speaks version {} of netcheck and yours another: run the same holdfast on both", kVersion));
  }
  return write_all(peer, fmt::format("{}{}\n", kName, kVersion), in(kExchangePatience));
}

NetResult<void> answer_pings(const Socket& peer, int64_t count) {
  if (count < 1 || count > kPingsMax)
    return tl::unexpected(fmt::format("{} pings are out of range: 1 to {}", count, kPingsMax));
  const auto deadline = in(kExchangePatience);
  for (int64_t i = 0; i < count; ++i) {
    if (auto ping = read_line(peer, 0, deadline); !ping) return tl::unexpected(ping.error());
    if (auto back = write_all(peer, "\n", deadline); !back) return back;
  }
  return {};
}

NetResult<void> answer_move(const Socket& peer, std::string_view direction, int64_t time_ms) {
  const bool receives = direction == "out" || direction == "both", sends = direction == "in" || direction == "both";
  const bool in_range =
      static_cast<double>(time_ms) >= kNetcheckSecondsMin * 1000 && static_cast<double>(time_ms) <= kNetcheckSecondsMax * 1000;
  if ((!receives && !sends) || !in_range) return tl::unexpected(fmt::format("asked to move {} for {} ms", direction, time_ms));
  const auto rate = move_blocks(peer, sends, receives, milliseconds(time_ms));
  if (!rate) return tl::unexpected(rate.error());
  return receives ? write_all(peer, fmt::format("{}\n", *rate), in(kExchangePatience)) : NetResult<void>{};
}

// "move both 3000": the words, and the number that ends them (-1 when there is none).
struct Command {
  std::string_view verb, word;
  int64_t number = -1;
};
Command parse_command(std::string_view line) {
  Command command;
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos) return command;
  command.verb = line.substr(0, first);
  if (last > first) command.word = line.substr(first + 1, last - first - 1);
  const std::string_view digits = line.substr(last + 1);
  int64_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (parsed.ec == std::errc{} && parsed.ptr == digits.data() + digits.size()) command.number = number;
  return command;
}

}  // namespace

bool slower_both_ways(const NetcheckFigures& figures) {
  // Below it one direction takes from the other, which a cable between two ports does not do.
  constexpr double kDuplexShare = 0.85;
  return std::min(figures.both_there, figures.both_back) < kDuplexShare * std::min(figures.there, figures.back);
}

int64_t pings_for(double trip_s) {
  return static_cast<int64_t>(std::clamp(1 / trip_s, static_cast<double>(kPingsAtFirst), static_cast<double>(kPingsWanted)));
}

NetResult<NetcheckFigures> ask_netcheck(const Socket& peer, double seconds) {
  const milliseconds time(std::llround(seconds * 1000));
  if (auto greeted = greet(peer); !greeted) return tl::unexpected(greeted.error());
  const auto round_trip = measure_round_trip(peer);
  if (!round_trip) return tl::unexpected(round_trip.error());
  const auto out = measure(peer, "out", true, false, time);
  if (!out) return tl::unexpected(out.error());
  const auto back = measure(peer, "in", false, true, time);
  if (!back) return tl::unexpected(back.error());
  const auto both = measure(peer, "both", true, true, time);
  if (!both) return tl::unexpected(both.error());
  return NetcheckFigures{*round_trip, out->there, back->back, both->there, both->back};
}

NetResult<void> answer_netcheck(const Socket& peer) {
  if (auto known = check_greeting(peer); !known) return known;
  for (int i = 0; i < kCommandsMax; ++i) {
    const auto line = read_line(peer, kLineMax, in(kExchangePatience));
    if (!line) return i > 0 ? NetResult<void>{} : tl::unexpected(line.error());  // a peer that has asked enough hangs up
    const Command command = parse_command(*line);
    NetResult<void> done;
    if (command.verb == "ping") {
      done = answer_pings(peer, command.number);
    } else if (command.verb == "move") {
      done = answer_move(peer, command.word, command.number);
    } else {
      done = tl::unexpected(fmt::format("asked for what there is not: {}", line->substr(0, 40)));
    }
    if (!done) return done;
  }
  return {};
}

}  // namespace holdfast::ops
