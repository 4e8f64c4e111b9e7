// The program `holdfast`: the service (`serve`) and everything people ask of it.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "ops/cli/program.h"
#include "worker/devices/devices.h"

int main(int argc, char** argv) {
  try {
    return holdfast::ops::run(argc, argv, holdfast::worker::kLinkedGpus);
  } catch (const std::exception& error) {
    fmt::print(stderr, "holdfast: {}\n", error.what());
    return holdfast::ops::kJobFailed;
  }
}
