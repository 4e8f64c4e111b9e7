// The played RCCL. A communicator's processes have a file of /dev/shm in common, in which each has a slot; an operation goes
// through the slots a piece at a time, whenever its stream is asked how far it is.
#include <fcntl.h>
#include <rccl/rccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

namespace {

constexpr size_t kSlotBytes = 16384;
constexpr int kSeats = 8;

struct Common {
  std::atomic<int> joined;
  struct Seat {
    std::atomic<uint64_t> filled, taken;  // pieces
    unsigned char slot[kSlotBytes];
  } seats[kSeats];
};

template <typename T>
void add(void* sum, const void* more, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof(T); ++i) static_cast<T*>(sum)[i] += static_cast<const T*>(more)[i];
}

}  // namespace

struct ncclComm {
  Common* common = nullptr;
  std::string name;
  int ranks = 0, rank = 0;
  uint64_t pieces = 0, operations = 0;
  std::function<void()> entering = nullptr;  // puts the call's work into its stream
  bool was_asked = false;
  std::shared_ptr<bool> aborted = std::make_shared<bool>(false);

  bool all(std::atomic<uint64_t> Common::Seat::*counter, uint64_t end) const {
    return std::all_of(common->seats, common->seats + ranks, [&](const auto& seat) { return (seat.*counter).load() >= end; });
  }
};

namespace {

struct Operation {
  const unsigned char* from;
  unsigned char* to;  // null: this rank has no result
  size_t bytes;
  ncclDataType_t type;
  int source = -1;  // of a broadcast
  size_t at = 0;
  bool filled = false;
};

// Goes on with the operation: whether it is done.
bool go_on(ncclComm& comm, Operation& operation) {
  while (operation.at < operation.bytes) {
    const size_t length = std::min(kSlotBytes, operation.bytes - operation.at);
    Common::Seat& own = comm.common->seats[comm.rank];
    if (!operation.filled) {
      if (!comm.all(&Common::Seat::taken, comm.pieces)) return false;
      std::memcpy(own.slot, operation.from + operation.at, length);
      own.filled.store(comm.pieces + 1);
      operation.filled = true;
    }
    if (!comm.all(&Common::Seat::filled, comm.pieces + 1)) return false;
    if (operation.to != nullptr) {
      unsigned char* to = operation.to + operation.at;
      std::memcpy(to, comm.common->seats[std::max(operation.source, 0)].slot, length);
      for (int other = 1; other < comm.ranks && operation.source < 0; ++other) {
        const unsigned char* theirs = comm.common->seats[other].slot;
        operation.type == ncclInt32 ? add<uint32_t>(to, theirs, length) : add<float>(to, theirs, length);
      }
    }
    own.taken.store(++comm.pieces);
    operation.filled = false;
    operation.at += length;
  }
  return true;
}

ncclResult_t begin(ncclComm_t comm, hipStream_t stream, Operation operation) {
  if (comm->entering) return ncclInvalidUsage;  // the call before is still under way
  ++comm->operations;
  comm->was_asked = false;
  comm->entering = [=] {
    shim::put(stream, [=, aborted = comm->aborted]() mutable { return *aborted || go_on(*comm, operation); });
  };
  return ncclInProgress;
}

size_t size_of(ncclDataType_t type) {
  return type == ncclUint8 ? 1 : 4;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "unhandled error";
  }
}

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::snprintf(id->internal, sizeof id->internal, "/holdfast-played-rccl-%08x%08x", random(), random());
  const int file = ::shm_open(id->internal, O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Common)) != 0) return ncclSystemError;
  ::close(file);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const char* said = std::getenv("HOLDFAST_SHIM_SUMS"); said != nullptr && std::string(said) == "refuse")
    return ncclSystemError;
  if (config->blocking != 0 || ranks > kSeats) return ncclInvalidArgument;
  const int file = ::shm_open(id.internal, O_RDWR, 0);
  if (file < 0) return ncclSystemError;
  void* memory = ::mmap(nullptr, sizeof(Common), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return ncclSystemError;
  *comm = new ncclComm{.common = static_cast<Common*>(memory), .name = id.internal, .ranks = ranks, .rank = rank};
  ++(*comm)->common->joined;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = ncclSuccess;
  if (comm->common->joined.load() < comm->ranks) {
    *state = ncclInProgress;
  } else if (!comm->name.empty()) {
    ::shm_unlink(std::exchange(comm->name, "").c_str());
  } else if (comm->entering && !std::exchange(comm->was_asked, true)) {
    *state = ncclInProgress;
  } else if (comm->entering) {
    std::exchange(comm->entering, nullptr)();
  }
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  *comm->aborted = true;
  if (!comm->name.empty()) ::shm_unlink(comm->name.c_str());
  std::fprintf(stderr, "played RCCL: %llu operations\n", static_cast<unsigned long long>(comm->operations));
  ::munmap(comm->common, sizeof(Common));
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           hipStream_t stream) {
  return begin(comm, stream,
               {static_cast<const unsigned char*>(from), static_cast<unsigned char*>(to), count * size_of(type), type});
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, int root, ncclComm_t comm,
                        hipStream_t stream) {
  return begin(comm, stream,
               {static_cast<const unsigned char*>(from), comm->rank == root ? static_cast<unsigned char*>(to) : nullptr,
                count * size_of(type), type});
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           hipStream_t stream) {
  return begin(comm, stream,
               {static_cast<const unsigned char*>(from), static_cast<unsigned char*>(to), count * size_of(type), type, root});
}
