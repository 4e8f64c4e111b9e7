#include "rendezvous/client/servers.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

namespace holdfast::rendezvous {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kSilence{2};  // after which a server is worth a try again

void add_words(std::vector<std::string>& words, std::string_view text) {
  constexpr std::string_view kBetween = ", \t\r\n";
  for (size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBetween, end);
  }
}

}  // namespace

std::string normalized_server(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  return url.find("://") == std::string::npos ? "http://" + url : url;
}

std::vector<std::string> Servers::listed(const std::string& text) {
  std::vector<std::string> words;
  if (text.starts_with('@')) {
    std::ifstream file(text.substr(1));
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with('#')) add_words(words, line);
    }
  } else {
    add_words(words, text);
  }
  if (words.empty()) words.push_back(text);
  for (std::string& word : words) word = normalized_server(std::move(word));
  return words;
}

std::shared_ptr<Servers> Servers::of(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::vector<std::string>, std::weak_ptr<Servers>> known;
  auto urls = listed(text);
  const std::lock_guard lock(mutex);
  auto& there = known[urls];
  auto servers = there.lock();
  if (!servers) there = servers = std::make_shared<Servers>(std::move(urls));
  return servers;
}

std::string Servers::current() const {
  const std::lock_guard lock(mutex_);
  return urls_[current_];
}

void Servers::leave(const std::string& from, const std::string& leader) {
  const std::lock_guard lock(mutex_);
  if (urls_[current_] != from) return;
  const auto found = std::ranges::find(urls_, normalized_server(leader));
  if (found == urls_.end() || *found == from) {
    current_ = (current_ + 1) % urls_.size();
  } else if (const auto named = static_cast<size_t>(found - urls_.begin()); !is_silent(named)) {
    current_ = named;
  } else {  // any other that may know better, this one last
    do current_ = (current_ + 1) % urls_.size();
    while (is_silent(current_) && urls_[current_] != from);
  }
}

void Servers::note_silence(const std::string& of) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(urls_, of);
  if (found == urls_.end()) return;
  Silence& silence = silences_[static_cast<size_t>(found - urls_.begin())];
  silence.until = steady_clock::now() + kSilence;
  ++silence.times;
}

int64_t Servers::silences(const std::string& of) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(urls_, of);
  return found == urls_.end() ? 0 : silences_[static_cast<size_t>(found - urls_.begin())].times;
}

bool Servers::is_silent(size_t server) const {
  return steady_clock::now() < silences_[server].until;
}

bool Servers::note_term(int64_t term) {
  const std::lock_guard lock(mutex_);
  if (term < term_) return false;
  if (term > std::exchange(term_, term) && tell_) tell_(term);
  return true;
}

int64_t Servers::term() const {
  const std::lock_guard lock(mutex_);
  return term_;
}

}  // namespace holdfast::rendezvous
