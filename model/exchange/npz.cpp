#include "model/exchange/npz.h"

#include <fmt/format.h>
#include <zlib.h>

namespace holdfast::model {

namespace {

// Zip's structures (PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3). A field of 16 or 32 ones says that an extra field has it.
constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint16_t kVersion64 = 45, kExtra64 = 1, kStored = 0, kElsewhere16 = 0xffff;
constexpr uint16_t kTime = 0, kDate = (1 << 5) | 1;  // 1980-01-01, the first day that zip has
constexpr uint32_t kElsewhere32 = 0xffffffff;

class Bytes {
 public:
  template <typename... Numbers>
  void numbers(Numbers... values) {
    (text_.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  }
  void text(const std::string& text) { text_ += text; }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(text_)); }
  uint64_t size() const { return text_.size(); }

 private:
  std::string text_;
};

struct Entry {
  std::string name;
  uint32_t checksum;
  uint64_t bytes, place;
};

std::string npy_header(const FileTensor& tensor) {
  std::string shape;
  for (const int64_t size : tensor.shape) shape += fmt::format("{}, ", size);
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape.size() == 1) shape.pop_back();  // "(768,)"
  std::string head = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 tensor.dtype == kernels::DType::kFloat32 ? "<f4" : "<f2", shape);
  constexpr size_t kBefore = 10;  // magic, version, length
  head.append(63 - (kBefore + head.size()) % 64, ' ');
  head += '\n';
  const auto length = static_cast<uint16_t>(head.size());
  std::string whole = "\x93NUMPY";
  whole += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return whole + head;
}

Bytes local_header(const Entry& entry) {
  Bytes head;
  head.numbers(kLocalHeader, kVersion64, uint16_t{0}, kStored, kTime, kDate, entry.checksum, kElsewhere32, kElsewhere32,
               static_cast<uint16_t>(entry.name.size()), uint16_t{20});
  head.text(entry.name);
  head.numbers(kExtra64, uint16_t{16}, entry.bytes, entry.bytes);
  return head;
}

Bytes directory_of(const std::vector<Entry>& entries, uint64_t place) {
  Bytes all;
  for (const Entry& entry : entries) {
    all.numbers(kCentralHeader, kVersion64, kVersion64, uint16_t{0}, kStored, kTime, kDate, entry.checksum, kElsewhere32,
                kElsewhere32, static_cast<uint16_t>(entry.name.size()), uint16_t{28}, uint16_t{0}, uint16_t{0}, uint16_t{0},
                uint32_t{0}, kElsewhere32);
    all.text(entry.name);
    all.numbers(kExtra64, uint16_t{24}, entry.bytes, entry.bytes, entry.place);
  }
  const uint64_t bytes = all.size(), count = entries.size();
  all.numbers(kEnd64, uint64_t{44}, kVersion64, kVersion64, uint32_t{0}, uint32_t{0}, count, count, bytes, place);
  all.numbers(kLocator64, uint32_t{0}, place + bytes, uint32_t{1});
  all.numbers(kEnd, uint16_t{0}, uint16_t{0}, kElsewhere16, kElsewhere16, kElsewhere32, kElsewhere32, uint16_t{0});
  return all;
}

uint32_t checksum_more(uint32_t checksum, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(::crc32_z(checksum, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace

std::vector<FileTensor> npz_tensors(const Gpt2Config& config, kernels::DType dtype) {
  const ParameterTable table(config);
  std::vector<FileTensor> tensors;
  for (size_t i = 0; i < table.entries.size(); ++i) tensors.push_back(file_tensor(table, i, table.entries[i].name, dtype));
  return tensors;
}

// A tensor's checksum stands before its bytes, so it is encoded twice.
tl::expected<void, std::string> write_npz(const WeightSource& source, std::span<const FileTensor> tensors,
                                          const ByteSink& sink) {
  std::vector<Entry> entries;
  uint64_t place = 0;
  const auto send = [&](std::span<const std::byte> bytes) {
    sink(bytes);
    place += bytes.size();
  };
  const auto written = for_each_tensor(source, tensors, [&](const FileTensor& tensor, std::span<const float> values) {
    const std::string head = npy_header(tensor);
    Entry entry{tensor.name + ".npy", checksum_more(0, std::as_bytes(std::span(head))),
                head.size() + static_cast<uint64_t>(tensor.bytes()), place};
    const auto encoded = encode(
        tensor, values, [&](std::span<const std::byte> bytes) { entry.checksum = checksum_more(entry.checksum, bytes); });
    if (!encoded) return encoded;
    send(local_header(entry).span());
    send(std::as_bytes(std::span(head)));
    entries.push_back(std::move(entry));
    return encode(tensor, values, send);
  });
  if (!written) return written;
  sink(directory_of(entries, place).span());
  return {};
}

}  // namespace holdfast::model
