// The hosts that workers are started on, as people who know mpirun and torchrun write them.
//
//   --hosts a,b:4,user@c           b takes four workers
//   --hostfile FILE, a host a line:
//     node1 slots=4                # as mpirun's hostfile; max_slots and anything after # is passed over
//     node2:2
// A host without a number takes one worker; one that is named again takes that many more. Pure, but for the file.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::ops {

struct Host {
  std::string address;  // as ssh takes it: a name, an address, user@name, a name of ~/.ssh/config
  int64_t slots = 1;
  bool operator==(const Host&) const = default;
};

// A worker's place.
struct Seat {
  std::string address, worker;  // where, and the worker's name: the host's, with its number where the host has several
  bool operator==(const Seat&) const = default;
};

// The errors name the line or the word, and what was expected.
tl::expected<std::vector<Host>, std::string> parse_hosts(const std::string& list);
tl::expected<std::vector<Host>, std::string> parse_host_file(const std::string& text);
// The first `workers` places; an error where there are fewer.
tl::expected<std::vector<Seat>, std::string> seats_on(const std::vector<Host>& hosts, int64_t workers);
int64_t slots_of(const std::vector<Host>& hosts);

// Words between blanks; '…' and "…" keep blanks in a word. An error where a quote is not closed.
tl::expected<std::vector<std::string>, std::string> words_of(const std::string& text);

}  // namespace holdfast::ops
