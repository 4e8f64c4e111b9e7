# shellcheck shell=bash
# What ops/build and ops/package share; they source it: CXX, the compiler, and jobs, how many of it at once.

# Where the system's own compiler is older than GCC 12 (Ubuntu 22.04's), the one that ops/setup put beside it.
if [[ -z ${CXX:-} ]]; then
  version_of_gcc=$(g++ -dumpversion 2>/dev/null || echo 0)
  if ((${version_of_gcc%%.*} < 12)); then
    CXX=$(command -v g++-14 || command -v g++-13 || command -v g++-12) ||
      { echo "$0: there is no g++ of version 12 or newer: run ops/setup first, or set CXX" >&2; exit 1; }
    export CXX
  fi
fi

# A job takes up to a gigabyte, of what the machine has free, and of what its control group may have.
jobs=$(nproc)
memory_gb=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
for limit in "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup 2>/dev/null)/memory.max" /sys/fs/cgroup/memory.max; do
  bytes=$(cat "$limit" 2>/dev/null || true)
  if [[ $bytes =~ ^[0-9]+$ ]] && ((bytes >> 30 < memory_gb)); then memory_gb=$((bytes >> 30)); fi
done
if ((memory_gb < jobs)); then jobs=$((memory_gb > 0 ? memory_gb : 1)); fi
