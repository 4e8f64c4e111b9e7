#include "storage/state_hash.h"

#include <algorithm>
#include <utility>

#include "storage/checkpoint.h"
#include "storage/shards/layout.h"

namespace holdfast::storage {

PieceDigest digest_of(std::span<const std::byte> piece) {
  return {checksum_128(piece)};
}

std::string state_hash_of(std::span<const PieceDigest> digests) {
  return checksum_hex(std::as_bytes(digests));
}

StateHasher::StateHasher(Version version, std::span<const TensorInfo> tensors) : version_(version), tensors_(tensors) {
  if (!tensors_.empty()) tensor_left_ = tensors_.front().bytes;
  begin_piece();
}

void StateHasher::begin_piece() {
  while (tensor_left_ == 0 && tensor_ + 1 < tensors_.size()) tensor_left_ = tensors_[++tensor_].bytes;
  if (tensor_left_ == 0) return;
  piece_left_ = static_cast<size_t>(std::min(tensor_left_, kPieceElements * element_width(tensors_[tensor_].dtype)));
  tensor_left_ -= static_cast<int64_t>(piece_left_);
}

void StateHasher::add(std::span<const std::byte> bytes) {
  if (version_ == Version::kBytes) return running_.add(bytes);
  while (!bytes.empty() && piece_left_ > 0) {
    const auto part = bytes.first(std::min(bytes.size(), piece_left_));
    bytes = bytes.subspan(part.size());
    piece_left_ -= part.size();
    running_.add(part);
    if (piece_left_ > 0) return;
    digests_.push_back({running_.digest()});
    running_.reset();
    begin_piece();
  }
}

std::string StateHasher::hex() {
  return version_ == Version::kBytes ? running_.hex() : state_hash_of(digests_);
}

}  // namespace holdfast::storage
