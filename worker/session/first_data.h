// The order in which a job's data is to come, where it is fetched while the job trains.
//
// Thread: one, the train thread.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "worker/session/session.h"

namespace holdfast::worker {

// Has the data of the steps that follow state `step` fetched before the rest: of some steps, so it is said again now and then.
void expect_data(const Session& session, int64_t step);
inline constexpr int64_t kDataExpectedEvery = 16;  // steps

// Waits for what the first step and an evaluation read. The error is a sentence for the user.
tl::expected<void, std::string> await_first_data(const Session& session);

}  // namespace holdfast::worker
