#include "worker/state/divided/early_digests.h"

#include <new>
#include <utility>

namespace holdfast::worker {
namespace {

// Where copies are not apart, the parameters of chunks that others own are still to come.
void digest_owned(Session& session) {
  auto here = session.state->pieces();
  const size_t chunks = session.sound.size();
  for (size_t piece = 0; piece < here.size(); ++piece) {
    const size_t chunk = piece % chunks;
    if (piece >= 3 * chunks || !session.sound[chunk] || !session.state->owned()[chunk]) here[piece].data = nullptr;
  }
  session.digested = {session.state->step, session.state->digests(here)};
}

}  // namespace

EarlyDigests::EarlyDigests(Session& session) {
  session.digested = {};
  if (!session.ops->memory_is_host()) return;
  thread_ = std::jthread([&session] {
    try {
      digest_owned(session);
    } catch (const std::bad_alloc&) {  // then they are made when they are asked for
    }
  });
}

}  // namespace holdfast::worker
