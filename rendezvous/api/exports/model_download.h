// A checkpoint's model as a file to download.
//
// Promises: prepare() has read and encoded all of it once, so what it gives back can be sent, also when the checkpoint is
// removed meanwhile (held_objects.h), but not when it is damaged; its size is known. Nothing is written to disk. Memory: while
// it reads, about the model's largest tensor; between the two, nothing of the model. Refuses: a checkpoint that does not
// verify, by the shard's name; a shared folder that this machine does not see, and GGUF without a tokenizer, with the command
// that does it elsewhere. Thread: any, one at a time; prepare() and send() block.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/data/tokenizer.h"
#include "model/exchange/download/single_file.h"
#include "model/exchange/weight_source.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/exports/held_objects.h"
#include "rendezvous/http/server.h"
#include "storage/checkpoint.h"

namespace holdfast::rendezvous {

struct ExportOrder {
  std::string job;
  int64_t step = 0;
  std::string store;  // as in CheckpointRecord: "" for the service's own
  std::string format = "safetensors", dtype = "float32";
};

// Where checkpoints may be, as ServiceOptions has it.
struct ExportPlaces {
  std::string data_dir;
  std::vector<std::string> checkpoint_roots;
};

class ModelDownload {
 public:
  // `stop`: once it is true, reading ends soon. `hold` lives as long as the download.
  static Outcome<std::shared_ptr<ModelDownload>> prepare(ExportOrder order, const ExportPlaces& places,
                                                         std::shared_ptr<const std::atomic<bool>> stop,
                                                         std::shared_ptr<void> hold);
  ModelDownload(const ModelDownload&) = delete;

  const model::SingleFile& file() const { return file_; }
  // Sends all of it, no faster than the reader takes it, and closes the stream; if that cannot be, the stream is abandoned. The
  // error says why; a reader that left is none.
  tl::expected<void, std::string> send(EventStream& stream);

 private:
  explicit ModelDownload(ExportOrder order) : order_(std::move(order)) {}
  Outcome<void> open(const ExportPlaces& places);
  Outcome<void> find_tokenizer(const ExportPlaces& places);
  Outcome<void> survey();
  tl::expected<void, std::string> read(std::span<const storage::MutableTensor> tensors);

  const ExportOrder order_;
  std::shared_ptr<const std::atomic<bool>> stop_;
  std::shared_ptr<void> hold_;
  std::unique_ptr<HeldObjects> store_;
  storage::Manifest manifest_;
  std::unique_ptr<model::Tokenizer> tokenizer_;  // null: there is none
  std::optional<storage::Error> failure_;        // of the store
  bool reader_gone_ = false;
  model::WeightSource checkpoint_, weights_;  // the second is the first, for as long as somebody wants it
  model::SingleFile file_;
};

}  // namespace holdfast::rendezvous
