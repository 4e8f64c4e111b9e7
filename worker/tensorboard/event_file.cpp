#include "worker/tensorboard/event_file.h"

#include <array>
#include <bit>

namespace holdfast::worker {
namespace {

enum FieldKind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = crc_table();

uint32_t masked(uint32_t crc) {
  return std::rotr(crc, 15) + 0xA282EAD8U;
}

template <typename Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(int field, FieldKind type) {
  return varint(static_cast<uint64_t>(field) << 3 | type);
}
std::string bytes_field(int field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}
std::string double_field(int field, double value) {
  return key(field, kFixed64) + little_endian(std::bit_cast<uint64_t>(value));
}
std::string float_field(int field, float value) {
  return key(field, kFixed32) + little_endian(std::bit_cast<uint32_t>(value));
}
std::string integer_field(int field, int64_t value) {
  return key(field, kVarint) + varint(static_cast<uint64_t>(value));
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::string event_record(std::string_view event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  return length + little_endian(masked(crc32c(length))) + std::string(event) + little_endian(masked(crc32c(event)));
}

std::string version_event(double wall_s) {
  return double_field(1, wall_s) + bytes_field(3, "brain.Event:2");
}

std::string session_start_event(double wall_s, int64_t step) {
  constexpr int64_t kStart = 1;
  return double_field(1, wall_s) + integer_field(2, step) + bytes_field(7, integer_field(1, kStart));
}

std::string scalars_event(double wall_s, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars)
    summary += bytes_field(1, bytes_field(1, scalar.tag) + float_field(2, static_cast<float>(scalar.value)));
  return double_field(1, wall_s) + integer_field(2, step) + bytes_field(5, summary);
}

}  // namespace holdfast::worker
