#include "model/data/prepare/document_reader.h"

#include <utility>

namespace holdfast::model {

DocumentReader::DocumentReader(std::vector<std::string> files, RecordOptions options, Keep keep)
    : files_(std::move(files)), options_(std::move(options)), keep_(std::move(keep)) {}

int64_t DocumentReader::packed_bytes() const {
  return packed_before_ + (archive_ ? archive_->bytes_read() : 0);
}

tl::expected<bool, std::string> DocumentReader::next_file() {
  for (;;) {
    if (!archive_) {
      if (file_ == files_.size()) return false;
      archive_ = std::make_unique<ArchiveReader>(files_[file_++]);
    }
    const auto name = archive_->next_file();
    if (!name) return tl::unexpected(name.error());
    if (*name) {
      text_ = std::make_unique<CheckedText>(*archive_, **name);
      auto records = read_records(*text_, options_);
      if (!records) return tl::unexpected(records.error());
      records_ = std::move(*records);
      return true;
    }
    packed_before_ += archive_->bytes_read();
    archive_.reset();
  }
}

tl::expected<bool, std::string> DocumentReader::next_part() {
  for (;;) {
    if (!records_) {
      if (const auto opened = next_file(); !opened || !*opened) return opened;
    }
    const auto part = records_->next();
    if (!part) return tl::unexpected(part.error());
    if (!*part) {
      records_.reset();
      continue;
    }
    if ((*part)->begins) {
      ++record_;
      index_ = 0;
      is_kept_ = !keep_ || !(*part)->ends || keep_(record_, (*part)->text);
    }
    if (!is_kept_) continue;
    cutter_.add((*part)->text);
    text_bytes_ += static_cast<int64_t>((*part)->text.size());
    if ((*part)->ends) cutter_.end();
    return true;
  }
}

tl::expected<bool, std::string> DocumentReader::next(Document& document) {
  for (;;) {
    if (const auto cut = cutter_.next()) {
      document.text = *cut;
      document.record = record_;
      document.index = index_++;
      return true;
    }
    if (const auto more = next_part(); !more || !*more) return more;
  }
}

}  // namespace holdfast::model
