// Little-endian bytes in and out, for the small messages between ranks.
//
// Promises: the layout is the order of the calls; a reader never reads past its end: it fails, and stays failed.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace holdfast::worker {

class WireWriter {
 public:
  template <std::unsigned_integral T>
  void put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void put_i64(int64_t value) { put(static_cast<uint64_t>(value)); }
  void put_f32(float value) { put(std::bit_cast<uint32_t>(value)); }
  void put_f64(double value) { put(std::bit_cast<uint64_t>(value)); }
  // Length (uint32), then the characters.
  void put_text(const std::string& text) {
    put(static_cast<uint32_t>(text.size()));
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  T get() {
    if (!has(sizeof(T))) return 0;
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(bytes_[i]) << (8 * i));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  int64_t get_i64() { return static_cast<int64_t>(get<uint64_t>()); }
  float get_f32() { return std::bit_cast<float>(get<uint32_t>()); }
  double get_f64() { return std::bit_cast<double>(get<uint64_t>()); }
  std::string get_text() {
    const auto size = get<uint32_t>();
    if (!has(size)) return {};
    std::string text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return text;
  }
  // Whether `bytes` more are there; the reader has failed when they are not.
  bool has(size_t bytes) {
    if (bytes_.size() < bytes) failed_ = true;
    return !failed_;
  }
  // Everything was read and nothing was missing.
  bool done() const { return !failed_ && bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

}  // namespace holdfast::worker
