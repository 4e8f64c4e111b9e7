#include "model/data/text/archive_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <locale.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

namespace holdfast::model {
namespace {

namespace fs = std::filesystem;
constexpr size_t kBlockBytes = 256 << 10;

struct Free {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

bool is_packing(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPackings = {".gz", ".bz2", ".xz", ".zst"};
  return std::ranges::any_of(kPackings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Whether a file in an archive is itself one, or packed.
bool holds_more(std::string_view name) {
  constexpr std::array<std::string_view, 6> kArchives = {".tar", ".zip", ".tgz", ".tbz2", ".txz", ".tzst"};
  return is_packing(name) || std::ranges::any_of(kArchives, [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string without_packing(std::string name) {
  while (is_packing(name)) name.resize(name.rfind('.'));
  return name;
}

bool leaves_its_folder(const fs::path& name) {
  return name.is_absolute() || std::ranges::find(name, fs::path("..")) != name.end();
}

bool is_hidden(const fs::path& name) {
  return std::ranges::any_of(name, [](const fs::path& part) { return part.string().starts_with('.') && part != "."; });
}

// libarchive gives names in the thread's locale: in C's a name that is not ASCII is none.
class Utf8Names {
 public:
  Utf8Names() : before_(locale() == locale_t{} ? locale_t{} : ::uselocale(locale())) {}
  ~Utf8Names() {
    if (before_ != locale_t{}) ::uselocale(before_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;

 private:
  static locale_t locale() {
    static const locale_t the_one = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
    return the_one;
  }
  locale_t before_;
};

}  // namespace

struct ArchiveReader::Layer {
  std::unique_ptr<archive, Free> reader{archive_read_new()};
  std::string name;   // of the packed file
  std::string entry;  // the file in it that is read; empty: the packed file has no names in it
  Layer* outer = nullptr;
  std::vector<char> block;  // bytes of the outer one that `reader` works on

  static la_ssize_t read(archive* inner, void* of, const void** bytes) {
    auto& layer = *static_cast<Layer*>(of);
    const la_ssize_t got = archive_read_data(layer.outer->reader.get(), layer.block.data(), layer.block.size());
    if (got < 0) archive_set_error(inner, EIO, "%s", archive_error_string(layer.outer->reader.get()));
    *bytes = layer.block.data();
    return got;
  }
};

ArchiveReader::ArchiveReader(std::string path) : path_(std::move(path)), bytes_(kBlockBytes) {}

ArchiveReader::~ArchiveReader() {
  while (!layers_.empty()) layers_.pop_back();  // the inner ones read from the outer ones
}

std::string ArchiveReader::place() const {
  std::string place = path_;
  for (const auto& layer : layers_) {
    if (!layer->entry.empty()) place += ": " + layer->entry;
  }
  return place;
}

tl::unexpected<std::string> ArchiveReader::damaged(const Layer& layer) const {
  const char* why = archive_error_string(layer.reader.get());
  return tl::unexpected(
      fmt::format("{}: cannot be read beyond byte {} of its text: {}. The file is damaged or truncated; copy it again.",
                  place(), unpacked_, why == nullptr ? "no reason is known" : why));
}

tl::expected<void, std::string> ArchiveReader::open_layer(std::unique_ptr<Layer> layer) {
  archive* reader = layer->reader.get();
  if (layers_.size() == kDeepest) {
    return tl::unexpected(
        fmt::format("{}: is an archive in an archive, {} deep; expected at most {}.", place(), kDeepest + 1, kDeepest));
  }
  for (const auto support :
       {archive_read_support_filter_gzip, archive_read_support_filter_bzip2, archive_read_support_filter_xz,
        archive_read_support_filter_zstd, archive_read_support_format_tar, archive_read_support_format_zip,
        archive_read_support_format_raw, archive_read_support_format_empty}) {
    support(reader);
  }
  int opened = ARCHIVE_OK;
  if (layer->outer == nullptr) {
    opened = archive_read_open_filename(reader, path_.c_str(), kBlockBytes);
  } else {
    layer->block.resize(kBlockBytes);
    opened = archive_read_open(reader, layer.get(), nullptr, &Layer::read, nullptr);
  }
  if (opened != ARCHIVE_OK) {
    const char* why = archive_error_string(reader);
    return tl::unexpected(fmt::format("{}: cannot be opened: {}.", place(), why == nullptr ? "no reason is known" : why));
  }
  layers_.push_back(std::move(layer));
  return {};
}

// Of what was handed out or skipped, and of what each layer has unpacked for the one in it.
tl::expected<void, std::string> ArchiveReader::check_growth() const {
  int64_t unpacked = unpacked_;
  for (const auto& layer : layers_) unpacked = std::max(unpacked, archive_filter_bytes(layer->reader.get(), 0));
  if (unpacked <= kAlwaysUnpacked || unpacked / kMostGrowth <= bytes_read()) return {};
  return tl::unexpected(fmt::format(
      "{}: {} bytes became {} while they were unpacked, expected text to shrink to no less than 1/{} of its size: is this an "
      "archive bomb? Leave it out, or unpack it first.",
      place(), bytes_read(), unpacked, kMostGrowth));
}

tl::expected<void, std::string> ArchiveReader::skip(const Layer& layer) {
  for (;;) {
    const la_ssize_t got = archive_read_data(layer.reader.get(), bytes_.data(), bytes_.size());
    if (got < 0) return damaged(layer);
    if (got == 0) return {};
    unpacked_ += got;
    if (auto good = check_growth(); !good) return good;
  }
}

tl::expected<bool, std::string> ArchiveReader::next_entry() {
  Layer& layer = *layers_.back();
  for (;;) {
    const Utf8Names names;
    archive_entry* entry = nullptr;
    layer.entry.clear();
    const int status = archive_read_next_header(layer.reader.get(), &entry);
    if (status == ARCHIVE_EOF) return false;
    if (status < ARCHIVE_WARN) return damaged(layer);
    if (auto good = check_growth(); !good) return tl::unexpected(good.error());
    if (archive_format(layer.reader.get()) == ARCHIVE_FORMAT_RAW) return true;
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr)
      return tl::unexpected(place() + ": has a file whose name is no UTF-8, so it is not known what it is. Pack it again.");
    layer.entry = name;
    if (leaves_its_folder(layer.entry)) {
      return tl::unexpected(
          fmt::format("{}: has a name that leaves its folder. Nothing was read of it; leave the archive out.", place()));
    }
    if (archive_entry_filetype(entry) == AE_IFREG && !is_hidden(layer.entry)) return true;
    if (auto skipped = skip(layer); !skipped) return tl::unexpected(skipped.error());
  }
}

tl::expected<std::optional<std::string>, std::string> ArchiveReader::next_file() {
  if (!opened_) {
    auto first = std::make_unique<Layer>();
    first->name = path_;
    if (auto opened = open_layer(std::move(first)); !opened) return tl::unexpected(opened.error());
    opened_ = true;
  }
  while (!layers_.empty()) {
    const auto found = next_entry();
    if (!found) return tl::unexpected(found.error());
    if (!*found) {
      if (layers_.size() == 1) packed_ = bytes_read();
      layers_.pop_back();
      continue;
    }
    Layer& layer = *layers_.back();
    if (layer.entry.empty() || !holds_more(layer.entry)) return without_packing(place());
    auto inner = std::make_unique<Layer>();
    inner->name = layer.entry;
    inner->outer = &layer;
    if (auto opened = open_layer(std::move(inner)); !opened) return tl::unexpected(opened.error());
  }
  return std::nullopt;
}

tl::expected<std::string_view, std::string> ArchiveReader::next_bytes() {
  const Layer& layer = *layers_.back();
  const la_ssize_t got = archive_read_data(layer.reader.get(), bytes_.data(), bytes_.size());
  if (got < 0) return damaged(layer);
  unpacked_ += got;
  if (auto good = check_growth(); !good) return tl::unexpected(good.error());
  return std::string_view(bytes_.data(), static_cast<size_t>(got));
}

int64_t ArchiveReader::bytes_read() const {
  return layers_.empty() ? packed_ : archive_filter_bytes(layers_.front()->reader.get(), -1);
}

}  // namespace holdfast::model
