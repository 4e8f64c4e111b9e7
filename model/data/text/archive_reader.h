// Files as they come: plain, packed (.gz, .bz2, .xz, .zst), in a tar or a zip, and these in one another; by libarchive. Nothing
// is unpacked to disk.
//
// Promises: memory is bounded, whatever a file holds (but for the list of files that a zip has at its end). Files in an archive
// come in its order, without those whose name starts with a dot. Refuses: what is damaged or cut short; an archive with a name
// that leaves its folder; archives in one another more than kDeepest deep; what grows more than kMostGrowth times while it is
// unpacked, once that is more than kAlwaysUnpacked bytes. Errors name the file and the place in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::model {

class ArchiveReader {
 public:
  static constexpr size_t kDeepest = 3;
  static constexpr int64_t kMostGrowth = 500, kAlwaysUnpacked = 256 << 20;

  explicit ArchiveReader(std::string path);  // opened by the first next_file
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // The next file's name for people, "texts.tar.gz: a/b.jsonl"; packing's endings are left out at the end, so that the last
  // ending says what the file is. Nothing at the end of all.
  tl::expected<std::optional<std::string>, std::string> next_file();
  // The file's next bytes, which stay until the next call; empty at its end.
  tl::expected<std::string_view, std::string> next_bytes();
  int64_t bytes_read() const;  // of the file on disk, as it is packed

 private:
  struct Layer;
  tl::unexpected<std::string> damaged(const Layer& layer) const;
  tl::expected<void, std::string> check_growth() const;
  tl::expected<void, std::string> skip(const Layer& layer);  // the entry at hand
  tl::expected<void, std::string> open_layer(std::unique_ptr<Layer> layer);
  tl::expected<bool, std::string> next_entry();  // of the innermost layer
  std::string place() const;

  std::string path_;
  bool opened_ = false;
  int64_t packed_ = 0;  // of a file that is read to its end
  int64_t unpacked_ = 0;
  std::vector<std::unique_ptr<Layer>> layers_;  // each but the first is an entry of the one before
  std::vector<char> bytes_;
};

}  // namespace holdfast::model
