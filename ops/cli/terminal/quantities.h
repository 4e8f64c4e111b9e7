// Seconds, shares and link rates with the digits that a planner needs; format.h has those of a progress line.
#pragma once

#include <string>
#include <vector>

namespace holdfast::ops {

// Three digits: "1.01 s", "34.2 ms", "180 us".
std::string seconds_text(double seconds);
// "119 MB/s (0.952 Gbit/s)".
std::string link_rate_text(double bytes_per_second);
// "96 %"; from 99 and below 10 with a digit after the point, so that near and very near differ: "99.6 %", "1.2 %".
std::string percent_text(double share);
// Of at least one value; of an even number the upper one.
double median(std::vector<double> values);

}  // namespace holdfast::ops
