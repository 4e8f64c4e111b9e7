// The report of `holdfast plan` for people: the summary that `submit --auto` prints, too, then every figure behind it.
#pragma once

#include <string>

#include "rendezvous/plan/report.h"

namespace holdfast::ops {

std::string text_of(const rendezvous::PlanReport& report);

}  // namespace holdfast::ops
