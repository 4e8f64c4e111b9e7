// An export as one file, for whoever cannot take a folder: a browser.
//
//   safetensors, npz   a tar of the folder that export_model writes; everything in it lies in one folder, `stem`
//   gguf               model.gguf as it is
//
// Promises: the files are export_model's, byte for byte. Nothing is written to disk. Before the first byte leaves, everything
// was read and encoded once, for its size: a checkpoint that is damaged or does not fit the format is known by then, and the
// file's size, too. Memory: as export_model. Refuses what export_model refuses. Thread: any; the functions block.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/exchange/export.h"

namespace holdfast::model {

struct SingleFile {
  std::string name;        // "j1-step-60-safetensors.tar"
  std::string media_type;  // "application/x-tar"
  int64_t bytes = 0;
  // Gives the bytes, the same ones each time. After an error what was given is not the whole.
  std::function<tl::expected<void, std::string>(const ByteSink&)> write;
};

// `stem`: the name without what says the format, at most 64 letters, digits and ._- of a checkpoint. The source and the
// request's tokenizer outlive the file.
tl::expected<SingleFile, std::string> single_file(const WeightSource& source, const ExportRequest& request,
                                                  const std::string& stem);

}  // namespace holdfast::model
