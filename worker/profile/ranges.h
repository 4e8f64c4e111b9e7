// Spans as ranges of the profilers that GPU makers have: AMD's roctx, NVIDIA's NVTX.
//
// Their libraries are loaded when they are there, and never linked: a worker must start without them. Ranges are pushed while a
// profile is recorded; with HOLDFAST_RANGES=1 always, for a run under rocprofv3 or nsys.
// Refuses: nothing. Without a library push and pop do nothing.
// Thread: push and pop any; the rest before there are several.
#pragma once

#include <string>

namespace holdfast::worker {

// Loads the first library that is there; with HOLDFAST_RANGES=1 every Span wants a range from now on. For workers on GPUs.
void show_ranges_of_gpu();
// Loads `library`, which has the functions `push` (const char*) and `pop` (). False: it is not there, or lacks one.
bool load_ranges(const std::string& library, const char* push, const char* pop);
// Whether every Span wants a range, also while nothing is recorded.
void always_show_ranges(bool always);

void push_range(const char* name);
void pop_range();

}  // namespace holdfast::worker
