// A call among seats whose failure, whatever it is, all other seats learn.
#pragma once

#include <exception>
#include <string>

#include "worker/collectives/node/seats.h"

namespace holdfast::worker {

template <typename Call>
CollectiveResult<void> giving_up_in(Seats& seats, Call call) {
  try {
    auto done = call();
    if (!done) seats.give_up(done.error());
    return done;
  } catch (const std::exception& error) {  // no memory, for one: the others must not wait for this rank
    seats.give_up({CollectiveError::Kind::kAborted, -1, std::string("an all-reduce failed here: ") + error.what(), false});
    throw;
  }
}

}  // namespace holdfast::worker
