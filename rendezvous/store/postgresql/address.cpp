#include "rendezvous/store/postgresql/address.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

struct Default {
  const char *key, *environment, *value;
};
constexpr Default kDefaults[] = {
    {"target_session_attrs", "PGTARGETSESSIONATTRS", "read-write"},
    {"connect_timeout", "PGCONNECT_TIMEOUT", "2"},
    {"client_encoding", "PGCLIENTENCODING", "UTF8"},
    {"tcp_user_timeout", nullptr, "5000"},  // milliseconds
    {"keepalives_idle", nullptr, "2"},
    {"keepalives_interval", nullptr, "1"},
    {"keepalives_count", nullptr, "3"},
};

Words words_of(const std::string& address) {
  char* complaint = nullptr;
  const std::unique_ptr<PQconninfoOption, void (*)(PQconninfoOption*)> options(PQconninfoParse(address.c_str(), &complaint),
                                                                               PQconninfoFree);
  if (options == nullptr) {
    std::string why = complaint == nullptr ? "out of memory" : complaint;
    PQfreemem(complaint);
    std::ranges::replace(why, '\n', ' ');
    throw StoreError(
        fmt::format("the address of the database cannot be read: {}: expected postgresql://USER@HOST/DATABASE", why));
  }
  Words words;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) words.emplace_back(option->keyword, option->val);
  }
  return words;
}

std::string value_of(const Words& words, const std::string& key) {
  const auto found = std::ranges::find(words, key, [](const auto& word) { return word.first; });
  return found == words.end() ? "" : found->second;
}

bool is_set(const char* variable) {
  const char* value = variable == nullptr ? nullptr : std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets any
  return value != nullptr && *value != '\0';
}

}  // namespace

bool is_postgresql_address(std::string_view address) {
  return address.starts_with("postgresql:") || address.starts_with("postgres:");
}

Words connection_words(const std::string& address, const std::string& application_name) {
  Words words = words_of(address);
  for (const Default& with : kDefaults) {
    if (value_of(words, with.key).empty() && !is_set(with.environment)) words.emplace_back(with.key, with.value);
  }
  words.emplace_back("application_name", application_name);
  return words;
}

std::string address_in_words(const std::string& address) {
  const Words words = words_of(address);
  const std::string hosts = value_of(words, "host"), database = value_of(words, "dbname");
  return fmt::format("postgresql://{}/{}", hosts.empty() ? value_of(words, "hostaddr") : hosts, database);
}

}  // namespace holdfast::rendezvous
