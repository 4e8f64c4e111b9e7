// TensorBoard's event files, as far as training curves need them.
//
// A file is a row of records, each: length of the data (u64), masked CRC of those 8 bytes (u32), data, masked CRC of the data
// (u32); little-endian. The CRC is CRC-32C (Castagnoli, reflected polynomial 0x82F63B78); masked: rotated right by 15 bits,
// plus 0xA282EAD8. The data is a protocol buffer of TensorFlow's event.proto and summary.proto, of which these fields are
// written:
//   Event       wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5, session_log = 7
//   Summary     value = 1 (repeated: tag = 1 (string), simple_value = 2 (float))
//   SessionLog  status = 1 (START = 1): a reader drops the points of this step and later ones that it read before
// The first record of a file holds the version "brain.Event:2".
// Promises: pure; the bytes are those that a protocol buffer library would write.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::worker {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

uint32_t crc32c(std::string_view bytes);
std::string event_record(std::string_view event);

// Encodes events; `wall_s` is in seconds since 1970.
std::string version_event(double wall_s);
std::string session_start_event(double wall_s, int64_t step);
std::string scalars_event(double wall_s, int64_t step, std::span<const Scalar> scalars);

}  // namespace holdfast::worker
