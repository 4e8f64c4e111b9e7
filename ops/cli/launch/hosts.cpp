#include "ops/cli/launch/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <sstream>

#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

using Failed = tl::unexpected<std::string>;

constexpr int64_t kSlotsMost = 1024;

std::optional<int64_t> slots_in(const std::string& text) {
  int64_t slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && slots >= 1 && slots <= kSlotsMost ? std::optional(slots) : std::nullopt;
}

// No host: a word that ssh would take for an option, or a shell for more than one word.
bool is_address(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("._-@:%[]").find(c) != std::string::npos;
  };
  return !text.empty() && text.size() <= 255 && text.front() != '-' && std::ranges::all_of(text, plain);
}

// "a", "a:4", "[fd00::1]:4"; an address with several colons and no brackets is an IPv6 address without a number.
tl::expected<Host, std::string> parse_word(const std::string& word) {
  Host host{word};
  const size_t colon = word.rfind(':');
  const bool bracketed = word.find('[') != std::string::npos;
  const bool numbered = colon != std::string::npos && (bracketed ? word[colon - 1] == ']' : word.find(':') == colon);
  if (numbered) {
    const auto slots = slots_in(word.substr(colon + 1));
    if (!slots)
      return Failed(fmt::format("\"{}\": expected a number of workers from 1 to {} after the colon", word, kSlotsMost));
    host = {word.substr(0, colon), *slots};
  }
  if (!is_address(host.address))
    return Failed(fmt::format("\"{}\" is no host: expected a name or an address such as node1", word));
  return host;
}

void add(std::vector<Host>& hosts, const Host& host) {
  const auto known = std::ranges::find(hosts, host.address, &Host::address);
  if (known == hosts.end()) {
    hosts.push_back(host);
  } else {
    known->slots += host.slots;
  }
}

// The words behind the host on a line of a file.
tl::expected<void, std::string> take_settings(std::istringstream& words, Host& host) {
  for (std::string word; words >> word;) {
    if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) continue;
    const auto slots = word.starts_with("slots=") ? slots_in(word.substr(6)) : std::nullopt;
    if (!slots) return Failed(fmt::format("\"{}\": expected slots=N, with N from 1 to {}", word, kSlotsMost));
    host.slots = *slots;
  }
  return {};
}

// Letters, digits, '.', '_' and '-', as a worker's name has them; of user@host the host.
std::string name_of(const std::string& address) {
  std::string name = address.substr(address.find('@') == std::string::npos ? 0 : address.find('@') + 1);
  std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '_' && c != '-'; }, '-');
  return name.substr(0, 100);
}

}  // namespace

tl::expected<std::vector<Host>, std::string> parse_hosts(const std::string& list) {
  std::vector<Host> hosts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    const auto host = parse_word(list.substr(begin, comma - begin));
    if (!host) return Failed("--hosts: " + host.error());
    add(hosts, *host);
    begin = comma + 1;
  }
  return hosts;
}

tl::expected<std::vector<Host>, std::string> parse_host_file(const std::string& text) {
  std::vector<Host> hosts;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    auto host = parse_word(word);
    if (!host) return Failed(fmt::format("--hostfile, line {}: {}", number, host.error()));
    if (const auto taken = take_settings(words, *host); !taken)
      return Failed(fmt::format("--hostfile, line {}: {}", number, taken.error()));
    add(hosts, *host);
  }
  if (hosts.empty()) return Failed("--hostfile: there is no host in it: expected one a line, such as `node1 slots=4`");
  return hosts;
}

int64_t slots_of(const std::vector<Host>& hosts) {
  int64_t all = 0;
  for (const Host& host : hosts) all += host.slots;
  return all;
}

tl::expected<std::vector<Seat>, std::string> seats_on(const std::vector<Host>& hosts, int64_t workers) {
  if (slots_of(hosts) < workers) {
    return Failed(fmt::format("{} asked for, and the hosts take {}: name more, or say how many each takes, as in node1:4",
                              rendezvous::counted(workers, "worker is", "workers are"), slots_of(hosts)));
  }
  std::vector<Seat> seats;
  for (const Host& host : hosts) {
    for (int64_t slot = 0; slot < host.slots && static_cast<int64_t>(seats.size()) < workers; ++slot) {
      const std::string name = name_of(host.address);
      seats.push_back({host.address, host.slots == 1 ? name : fmt::format("{}-{}", name, slot)});
    }
  }
  return seats;
}

tl::expected<std::vector<std::string>, std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        words.back() += c;
      }
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      inside = false;
    } else {
      if (!std::exchange(inside, true)) words.emplace_back();
      if (c == '\'' || c == '"') {
        quote = c;
      } else {
        words.back() += c;
      }
    }
  }
  if (quote != 0) return Failed(fmt::format("\"{}\": a quote ({}) is not closed", text, quote));
  return words;
}

}  // namespace holdfast::ops
