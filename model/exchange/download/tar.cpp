#include "model/exchange/download/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace holdfast::model {
namespace {

constexpr size_t kBlock = 512;
constexpr int64_t kOctalMax = (int64_t{1} << 33) - 1;  // eleven octal digits
constexpr int64_t kFirstDay = 315532800;  // 1980-01-01, as in the zips of npz.cpp; GNU tar takes 1970 for a mistake

struct Field {
  size_t place, bytes;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12}, kTime{136, 12}, kSum{148, 8},
    kType{156, 1}, kMagic{257, 8};

void put(std::string& block, Field field, std::string_view text) {
  std::ranges::copy(text.substr(0, field.bytes), block.begin() + static_cast<std::ptrdiff_t>(field.place));
}

void put_octal(std::string& block, Field field, int64_t value) {
  put(block, field, fmt::format("{:0{}o}", value, field.bytes - 1));
}

// The first bit says that the rest is the number itself, its highest byte first.
void put_binary(std::string& block, Field field, int64_t value) {
  for (size_t i = field.bytes; i-- > 1; value >>= 8) block[field.place + i] = static_cast<char>(value & 0xff);
  block[field.place] = static_cast<char>(0x80);
}

}  // namespace

std::string tar_head(std::string_view name, int64_t bytes) {
  std::string block(kBlock, '\0');
  put(block, kName, name);
  put_octal(block, kMode, 0644);
  put_octal(block, kUser, 0);
  put_octal(block, kGroup, 0);
  bytes > kOctalMax ? put_binary(block, kSize, bytes) : put_octal(block, kSize, bytes);
  put_octal(block, kTime, kFirstDay);
  put(block, kType, "0");  // a file
  put(block, kMagic, std::string_view("ustar\00000", 8));
  put(block, kSum, "        ");  // the sum counts its own field as blanks
  const auto sum = std::accumulate(block.begin(), block.end(), int64_t{0},
                                   [](int64_t all, char c) { return all + static_cast<uint8_t>(c); });
  put_octal(block, {kSum.place, 7}, sum);
  block[kSum.place + 6] = '\0';  // and the last blank stays
  return block;
}

std::string tar_padding(int64_t bytes) {
  return std::string((kBlock - static_cast<size_t>(bytes) % kBlock) % kBlock, '\0');
}

std::string tar_end() {
  return std::string(2 * kBlock, '\0');
}

}  // namespace holdfast::model
