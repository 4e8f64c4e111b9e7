// The commit that this program was built from.
#pragma once

#include <string>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

// "1a2b3c4d5", with "+changes" where the tree had some that were not committed; "" where it was no clone.
const char* build_commit();

// "0.1.0 (commit 1a2b3c4d5)".
inline std::string version_and_commit() {
  const std::string commit = build_commit();
  return kHoldfastVersion + (commit.empty() ? "" : " (commit " + commit + ")");
}

}  // namespace holdfast::rendezvous
