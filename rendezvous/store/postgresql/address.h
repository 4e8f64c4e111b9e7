// Addresses of PostgreSQL databases, as libpq has them: postgresql://USER@HOST,HOST/DATABASE?key=value, or key=value words.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::rendezvous {

bool is_postgresql_address(std::string_view address);

// libpq's keywords and values of an address, and those that Holdfast adds where the address and the environment leave them
// open: the server that takes writes, 2 s to connect to each host, a dead connection is noticed. Throws StoreError with libpq's
// words where the address is none.
std::vector<std::pair<std::string, std::string>> connection_words(const std::string& address,
                                                                  const std::string& application_name);

// For people and logs: hosts and database, and never a password. "postgresql://db1,db2/holdfast".
std::string address_in_words(const std::string& address);

}  // namespace holdfast::rendezvous
