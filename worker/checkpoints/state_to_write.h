// A session's state as a rank writes it in a checkpoint: all of it, or of a divided state this rank's part. Thread: the ops'
// own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "storage/checkpoint_writer.h"
#include "worker/session/session.h"

namespace holdfast::worker {

struct StateToWrite {
  int64_t step = 0;
  std::string state_hash = {};                // of the whole state, which all ranks have compared; "": not known
  double compared_s = 0;                      // for how long training stood still for that
  std::vector<storage::ConstTensor> tensors;  // all, where their bytes are; or none, where a part is written:
  struct Part {
    storage::PartOf of;
    std::vector<storage::TensorInfo> tensors;  // likewise
    std::vector<storage::PieceBytes> pieces;
  };
  std::optional<Part> part = {};
  storage::CheckpointWriter::CopyBytes copy = {};  // to the host; null where the bytes are there
  // Set where the bytes may be copied beside training: to be told how the copy is waited for (TrainState::lend).
  std::function<void(std::function<void()> wait)> lend = {};
};

// `state_of` and `part_of` are valid while the session is and until its next step.
StateToWrite state_of(Session& session, std::string state_hash = "");
// The size of the copies that rank 0 makes in the host's memory, which are made room for ahead; 0: none is. A GPU's worker
// needs that memory for a state that it reads or hands over.
size_t bytes_of_copies(const Session& session);
// `writes`: by piece (TrainState::pieces), which are here.
StateToWrite part_of(Session& session, storage::PartOf of, const std::string& state_hash, const std::vector<bool>& writes);

}  // namespace holdfast::worker
