// The words of train_data_path and valid_data_path: a file on the workers, a file of a data set that the service keeps, or, to
// train on, several of these with weights.
//
//   /data/train.bin                    a file; a relative path is below --data_root
//   data:wiki                          train.bin of the data set "wiki" (val.bin in valid_data_path)
//   data:wiki/other.bin                another of its files
//   data:wiki@0f3c…(64 digits)/x.bin   of exactly that content. The service adds the digest when a job is submitted, so that a
//                                      job trains on what had the name then, whatever has it later
//   data:wiki:0.7,data:code:0.3        a mixture. In a mixture a word without '/' and '.' is a data set, too: wiki:0.7,code:0.3
//
// Thread: any; everything here is pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::rendezvous {

struct DataSource {
  std::string path;    // of a file on the workers; "": it is in a data set
  std::string set;     // the data set's name
  std::string digest;  // of its manifest (DataManifest::digest); "": whatever has the name
  std::string file;    // in the data set; never ""
  // The sequences of this source in each block of (sum of all shares) sequences of a mixture, one block after another
  // (model/data/mixture_order.h); 1 where it is the only one. The shares of a mixture have no common divisor.
  int64_t share = 1;
  bool operator==(const DataSource&) const = default;

  bool in_set() const { return path.empty(); }
};

inline constexpr size_t kDataSourcesMax = 16;
inline constexpr size_t kDataNameBytesMax = 63;

// A name that a data set may have: letters, digits and ._- , not beginning with a dot.
bool is_data_name(std::string_view name);

// Of train_data_path: at least one; several are a mixture. The error is a sentence without the field's name.
tl::expected<std::vector<DataSource>, std::string> parse_training_sources(const std::string& text);
// Of valid_data_path, which has no mixtures.
tl::expected<DataSource, std::string> parse_validation_source(const std::string& text);
// Text that is parsed to the same; mixtures have their shares as weights.
std::string to_text(const std::vector<DataSource>& sources);

// The folder of the training file or, of a mixture, of the first source that is a file: `holdfast data prepare` leaves the
// tokenizer there. "" where all are in data sets; "." where the path is a name alone.
std::string training_folder(const std::string& train_data_path);

}  // namespace holdfast::rendezvous
