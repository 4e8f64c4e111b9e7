#include "model/data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>
#include <system_error>
#include <utility>

#include "storage/checksum.h"

namespace holdfast::model {

namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and are read as they lie");

// llm.c's header. As two uint16 the magic is 55432 and 308: no GPT-2 vocabulary has the first, so no nanoGPT file of
// GPT-2 ids starts like this.
constexpr int32_t kMagic = 20240520;
constexpr int32_t kVersion = 1;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);

std::string system_message(int error) {
  return std::generic_category().message(error);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// A whole file mapped for reading. The file must not shrink while it is mapped (the kernel answers with SIGBUS).
class Mapping {
 public:
  Mapping(void* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (memory_ != nullptr) ::munmap(memory_, bytes_);
  }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(memory_), bytes_}; }
  // The pages of `part` are mapped anew when they are read again.
  void forget(std::span<const std::byte> part) const {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(part.data()), aligned = begin / page * page;
    ::madvise(reinterpret_cast<void*>(aligned), part.size() + (begin - aligned), MADV_DONTNEED);
  }

 private:
  void* memory_;
  size_t bytes_;
};

tl::expected<Mapping, std::string> map_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    return tl::unexpected(path + ": cannot be opened: " + system_message(errno) +
                          ". Give the path of a token file; `holdfast data prepare` writes one from text.");
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return tl::unexpected(path + ": cannot be examined: " + system_message(errno));
  if (S_ISDIR(status.st_mode)) {
    return tl::unexpected(path + ": is a folder, expected a token file. Give the file in it, for example " + path +
                          "/train.bin.");
  }
  if (!S_ISREG(status.st_mode))
    return tl::unexpected(path + ": is not a regular file, so it cannot be mapped. Copy it to a file.");
  if (status.st_size == 0) return tl::unexpected(path + ": is empty (0 bytes), expected token ids. Prepare or copy it again.");
  const size_t bytes = static_cast<size_t>(status.st_size);
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return tl::unexpected(path + ": " + std::to_string(bytes) + " bytes cannot be mapped: " + system_message(errno));
  }
  return Mapping(memory, bytes);
}

struct Layout {
  const char* format;
  size_t first_byte;  // of the ids
  size_t tokens;
};

int32_t header_word(std::span<const std::byte> bytes, size_t index) {
  int32_t word = 0;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

tl::expected<Layout, std::string> read_llmc_layout(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) {
    return tl::unexpected(path + ": ends at byte " + std::to_string(bytes.size()) + ", inside llm.c's header of " +
                          std::to_string(kHeaderBytes) + " bytes: the file is truncated. Copy or write it again.");
  }
  const int32_t version = header_word(bytes, 1);
  if (version != kVersion) {
    return tl::unexpected(path + ": llm.c header version " + std::to_string(version) +
                          " at byte 4, expected 1 (uint16 ids, as for GPT-2). Convert it to version 1.");
  }
  const int32_t tokens = header_word(bytes, 2);
  if (tokens <= 0) {
    return tl::unexpected(path + ": the llm.c header at byte 8 says " + std::to_string(tokens) +
                          " tokens, expected at least 1. Write the file again.");
  }
  const size_t expected_bytes = kHeaderBytes + static_cast<size_t>(tokens) * sizeof(uint16_t);
  if (bytes.size() != expected_bytes) {
    return tl::unexpected(path + ": ends at byte " + std::to_string(bytes.size()) + ", but its llm.c header says " +
                          std::to_string(tokens) + " tokens, so byte " + std::to_string(expected_bytes) + ": the file " +
                          (bytes.size() < expected_bytes ? "is truncated" : "has bytes after its end") +
                          ". Copy or write it again.");
  }
  return Layout{"llm.c", kHeaderBytes, static_cast<size_t>(tokens)};
}

tl::expected<Layout, std::string> read_layout(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.size() >= sizeof(int32_t) && header_word(bytes, 0) == kMagic) return read_llmc_layout(path, bytes);
  if (bytes.size() % sizeof(uint16_t) != 0) {
    return tl::unexpected(path + ": has an odd number of bytes (" + std::to_string(bytes.size()) +
                          "): raw uint16 ids take 2 each, so half an id is at byte " + std::to_string(bytes.size() - 1) +
                          ". The file is truncated or no token file; copy it again, or prepare it from text.");
  }
  return Layout{"nanogpt", 0, bytes.size() / sizeof(uint16_t)};
}

class MappedTokenFile final : public TokenFile {
 public:
  MappedTokenFile(std::string path, Mapping mapping, const Layout& layout)
      : path_(std::move(path)), mapping_(std::move(mapping)), layout_(layout) {}

  const std::string& path() const override { return path_; }
  const char* format() const override { return layout_.format; }
  std::span<const uint16_t> tokens() const override {
    const std::byte* first = mapping_.bytes().data() + layout_.first_byte;  // page-aligned plus an even number
    return {reinterpret_cast<const uint16_t*>(first), layout_.tokens};
  }

  tl::expected<void, std::string> check_ids(int64_t vocab_size) const override {
    if (vocab_size > std::numeric_limits<uint16_t>::max()) return {};
    tl::expected<void, std::string> good;
    in_pieces([&](std::span<const uint16_t> piece) {
      uint16_t largest = 0;
      for (const uint16_t id : piece) largest = std::max(largest, id);  // without an exit it is a vector loop
      if (largest < vocab_size) return true;
      const auto too_large = std::ranges::find_if(piece, [vocab_size](uint16_t id) { return id >= vocab_size; });
      good = refuse_id(static_cast<size_t>(&*too_large - tokens().data()), vocab_size);
      return false;
    });
    return good;
  }

  std::string digest() const override {
    std::call_once(digest_once_, [this] {
      storage::RunningChecksum digest;
      in_pieces([&](std::span<const uint16_t> piece) {
        digest.add(std::as_bytes(piece));
        return true;
      });
      digest_ = std::to_string(layout_.tokens) + "-" + digest.hex();
    });
    return digest_;
  }

 private:
  // Once over all ids, until `work` returns false. Pieces that were read do not count as this process's memory any more: a file
  // may be larger than that.
  template <typename Work>
  void in_pieces(const Work& work) const {
    constexpr size_t kPiece = 8 << 20;
    const std::span<const uint16_t> ids = tokens();
    for (size_t begin = 0; begin < ids.size(); begin += kPiece) {
      const auto piece = ids.subspan(begin, std::min(kPiece, ids.size() - begin));
      const bool goes_on = work(piece);
      mapping_.forget(std::as_bytes(piece));
      if (!goes_on) return;
    }
  }

  tl::expected<void, std::string> refuse_id(size_t place, int64_t vocab_size) const {
    return tl::unexpected(path_ + ": token " + std::to_string(tokens()[place]) + " at byte " +
                          std::to_string(layout_.first_byte + place * sizeof(uint16_t)) + " (token " + std::to_string(place) +
                          ") is not below vocab_size " + std::to_string(vocab_size) +
                          ": the file was made with a larger vocabulary. Set vocab_size to the tokenizer's, or prepare the "
                          "file with this vocabulary.");
  }

  std::string path_;
  Mapping mapping_;
  Layout layout_;
  mutable std::once_flag digest_once_;
  mutable std::string digest_;
};

}  // namespace

tl::expected<std::shared_ptr<const TokenFile>, std::string> TokenFile::open(const std::string& path) {
  tl::expected<Mapping, std::string> mapping = map_file(path);
  if (!mapping) return tl::unexpected(std::move(mapping.error()));
  const tl::expected<Layout, std::string> layout = read_layout(path, mapping->bytes());
  if (!layout) return tl::unexpected(layout.error());
  return std::make_shared<MappedTokenFile>(path, std::move(*mapping), *layout);
}

}  // namespace holdfast::model
