// The name of a setting that zstd calls experimental is asked for: Huffman codes where no matches are looked for.
#define ZSTD_STATIC_LINKING_ONLY
#include "worker/sharding/differences.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "worker/invariants/invariant.h"
#include "worker/sharding/difference_fields.h"
#include "worker/sharding/magnitude_groups.h"
#include "worker/sharding/ulps.h"

namespace holdfast::worker {
namespace {

enum Format : uint8_t { kUnchanged, kCoded, kPlain };
constexpr size_t kWidthsInAByte = 4;

uint32_t checksum_of_copy(std::span<const uint16_t> copy) {
  return static_cast<uint32_t>(XXH3_64bits(copy.data(), copy.size_bytes()));
}

size_t width_bytes(size_t groups) {
  return (groups + kWidthsInAByte - 1) / kWidthsInAByte;
}

// Debian's zstd also reads frames of versions before 0.8, by code that nobody looks after any more: it is not let near.
bool begins_as_zstd(std::span<const std::byte> frame) {
  uint32_t magic = 0;
  if (frame.size() < sizeof magic) return false;
  std::memcpy(&magic, frame.data(), sizeof magic);
  return magic == ZSTD_MAGICNUMBER;
}

template <typename... Arguments>
tl::unexpected<std::string> refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return tl::unexpected("differences of a copy: " + fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Huffman codes alone: matches among differences are accidents, and cost more than they save. A step of 128 KB between places
// where one is looked for leaves none; it also switches the codes off, unless they are asked for. A zstd that does not know
// that setting any more finds some matches, and makes frames a few percent longer.
void set_huffman_only(ZSTD_CCtx* zstd) {
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, 1);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_strategy, ZSTD_fast);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_minMatch, ZSTD_MINMATCH_MAX);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_hashLog, ZSTD_HASHLOG_MIN);
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, 17);  // a block has no more
  if (ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_literalCompressionMode, ZSTD_ps_enable))) return;
  ZSTD_CCtx_setParameter(zstd, ZSTD_c_targetLength, ZSTD_TARGETLENGTH_MAX);
}

}  // namespace

struct DifferenceEncoder::State {
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd{ZSTD_createCCtx(), ZSTD_freeCCtx};
  std::vector<uint16_t> unsorted, folded;  // (n) the folded differences, in the copy's order and by group
  std::vector<std::byte> fields;           // one group's
  std::vector<std::byte> low, high;        // of exceptions
  std::vector<std::byte> coded;

  void sort(std::span<const uint16_t> before, std::span<const uint16_t> after, const MagnitudeGroups& groups);
  bool append(std::span<const std::byte> bytes, ZSTD_EndDirective then, ZSTD_outBuffer& out);
  size_t code_groups(const MagnitudeGroups& groups, size_t body_bytes_max);
};

DifferenceEncoder::DifferenceEncoder() : state_(std::make_unique<State>()) {
  if (!state_->zstd) throw std::bad_alloc();
  set_huffman_only(state_->zstd.get());
}
DifferenceEncoder::~DifferenceEncoder() = default;
DifferenceEncoder::DifferenceEncoder(DifferenceEncoder&&) noexcept = default;

// In two loops, the first of which is vectorised: a quarter less time than in one.
void DifferenceEncoder::State::sort(std::span<const uint16_t> before, std::span<const uint16_t> after,
                                    const MagnitudeGroups& groups) {
  for (size_t i = 0; i < before.size(); ++i) unsorted[i] = folded_difference(before[i], after[i]);
  auto place = groups.first;
  for (size_t i = 0; i < before.size(); ++i) folded[place[magnitude_class(before[i])]++] = unsorted[i];
}

// False: there is no room for it.
bool DifferenceEncoder::State::append(std::span<const std::byte> bytes, ZSTD_EndDirective then, ZSTD_outBuffer& out) {
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  const size_t left = ZSTD_compressStream2(zstd.get(), &out, &in, then);
  return left == 0 && in.pos == in.size;
}

// Writes the body behind the header. The return value is its length, or 0 where it has more than `body_bytes_max`.
size_t DifferenceEncoder::State::code_groups(const MagnitudeGroups& groups, size_t body_bytes_max) {
  const size_t widths = width_bytes(groups.sizes.size());
  if (widths >= body_bytes_max) return 0;
  std::byte* const body = coded.data() + kDifferencesHeaderBytes;
  std::fill_n(body, widths, std::byte{0});
  ZSTD_CCtx_reset(zstd.get(), ZSTD_reset_session_only);
  ZSTD_outBuffer out{body, body_bytes_max, widths};
  Exceptions exceptions{low.data(), high.data()};
  std::span<const uint16_t> rest(folded);
  for (size_t g = 0; g < groups.sizes.size(); ++g) {
    const auto group = rest.first(groups.sizes[g]);
    rest = rest.subspan(group.size());
    const FieldBits bits = choose_field_bits(group);
    body[g / kWidthsInAByte] |= static_cast<std::byte>(static_cast<unsigned>(bits) << (2 * (g % kWidthsInAByte)));
    pack_fields(group, bits, fields.data(), exceptions);
    if (!append({fields.data(), field_bytes(group.size(), bits)}, ZSTD_e_flush, out)) return 0;
  }
  if (!append({low.data(), exceptions.count}, ZSTD_e_flush, out)) return 0;
  if (!append({high.data(), exceptions.count}, ZSTD_e_end, out)) return 0;
  return out.pos;
}

std::span<const std::byte> DifferenceEncoder::encode(std::span<const uint16_t> before, std::span<const uint16_t> after) {
  must_hold(before.size() == after.size(), [&] {
    return fmt::format("a copy of {} elements was to be coded against one of {}", after.size(), before.size());
  });
  State& s = *state_;
  const size_t plain_bytes = after.size_bytes();
  for (auto* buffer : {&s.fields, &s.low, &s.high}) buffer->resize(std::max(buffer->size(), after.size()));
  s.coded.resize(std::max(s.coded.size(), kDifferencesHeaderBytes + plain_bytes));
  s.unsorted.resize(after.size());
  s.folded.resize(after.size());

  size_t body_bytes = 0;
  Format format = kUnchanged;
  if (!std::equal(before.begin(), before.end(), after.begin())) {
    const MagnitudeGroups groups(before, kGroupElementsMin);
    s.sort(before, after, groups);
    body_bytes = s.code_groups(groups, plain_bytes - 1);
    format = body_bytes > 0 ? kCoded : kPlain;
    if (format == kPlain) {
      std::memcpy(s.coded.data() + kDifferencesHeaderBytes, after.data(), plain_bytes);
      body_bytes = plain_bytes;
    }
  }
  const uint32_t checksum = checksum_of_copy(after);
  s.coded[0] = static_cast<std::byte>(format);
  std::memcpy(s.coded.data() + 1, &checksum, sizeof checksum);
  return {s.coded.data(), kDifferencesHeaderBytes + body_bytes};
}

struct DifferenceDecoder::State {
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd{ZSTD_createDCtx(), ZSTD_freeDCtx};
  std::vector<uint16_t> folded;    // (n) sorted by group
  std::vector<std::byte> content;  // of the frame
  std::vector<uint16_t> after;     // (n)

  tl::expected<size_t, std::string> decompress(std::span<const std::byte> frame, size_t fields, size_t elements);
  tl::expected<void, std::string> unpack(std::span<const std::byte> body, const MagnitudeGroups& groups);
  void apply(std::span<const uint16_t> copy, const MagnitudeGroups& groups);
};

DifferenceDecoder::DifferenceDecoder() : state_(std::make_unique<State>()) {
  if (!state_->zstd) throw std::bad_alloc();
}
DifferenceDecoder::~DifferenceDecoder() = default;
DifferenceDecoder::DifferenceDecoder(DifferenceDecoder&&) noexcept = default;

// The return value is how many exceptions follow the `fields` bytes of fields, `elements` at most.
tl::expected<size_t, std::string> DifferenceDecoder::State::decompress(std::span<const std::byte> frame, size_t fields,
                                                                       size_t elements) {
  if (!begins_as_zstd(frame)) return refuse("its {} bytes behind the widths are not a zstd frame", frame.size());
  const size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_bytes) || frame_bytes != frame.size())
    return refuse("its {} bytes behind the widths are not one whole zstd frame", frame.size());
  content.resize(std::max(content.size(), fields + 2 * elements));
  const size_t size = ZSTD_decompressDCtx(zstd.get(), content.data(), fields + 2 * elements, frame.data(), frame.size());
  if (ZSTD_isError(size)) return refuse("its frame does not decompress: {}", ZSTD_getErrorName(size));
  if (size < fields || (size - fields) % 2 != 0)
    return refuse("its frame has {} bytes, expected {} of fields and 2 for each exception", size, fields);
  return (size - fields) / 2;
}

tl::expected<void, std::string> DifferenceDecoder::State::unpack(std::span<const std::byte> body,
                                                                 const MagnitudeGroups& groups) {
  const size_t widths = width_bytes(groups.sizes.size());
  if (body.size() < widths) return refuse("it ends after {} of {} bytes of widths", body.size(), widths);
  std::vector<FieldBits> bits(widths * kWidthsInAByte);
  size_t fields = 0;
  for (size_t g = 0; g < bits.size(); ++g) {
    const auto width = static_cast<unsigned>(body[g / kWidthsInAByte]) >> (2 * (g % kWidthsInAByte)) & 3u;
    const unsigned width_max = g < groups.sizes.size() ? static_cast<unsigned>(FieldBits::kTwo) : 0;
    if (width > width_max)
      return refuse("the width of group {} of {} is {}, at most {} is one", g, groups.sizes.size(), width, width_max);
    bits[g] = static_cast<FieldBits>(width);
    if (g < groups.sizes.size()) fields += field_bytes(groups.sizes[g], bits[g]);
  }
  const auto exceptions_in_all = decompress(body.subspan(widths), fields, folded.size());
  if (!exceptions_in_all) return tl::unexpected(exceptions_in_all.error());
  Exceptions exceptions{content.data() + fields, content.data() + fields + *exceptions_in_all};
  std::span<uint16_t> rest(folded);
  const std::byte* at = content.data();
  for (size_t g = 0; g < groups.sizes.size(); ++g) {
    const auto group = rest.first(groups.sizes[g]);
    rest = rest.subspan(group.size());
    switch (unpack_fields(at, bits[g], group, exceptions, *exceptions_in_all)) {
      case Unpacked::kWhole:
        break;
      case Unpacked::kPaddingIsNotZero:
        return refuse("the last byte of group {} is not padded with zeros", g);
      case Unpacked::kTooFewExceptions:
        return refuse("group {} asks for more than its {} exceptions", g, *exceptions_in_all);
    }
    at += field_bytes(group.size(), bits[g]);
  }
  if (exceptions.count != *exceptions_in_all)
    return refuse("it has {} exceptions, {} of which are asked for", *exceptions_in_all, exceptions.count);
  return {};
}

void DifferenceDecoder::State::apply(std::span<const uint16_t> copy, const MagnitudeGroups& groups) {
  auto place = groups.first;
  for (size_t i = 0; i < copy.size(); ++i) after[i] = folded[place[magnitude_class(copy[i])]++];
  for (size_t i = 0; i < copy.size(); ++i) after[i] = with_difference(copy[i], after[i]);
}

tl::expected<void, std::string> DifferenceDecoder::decode(std::span<const std::byte> coded, std::span<uint16_t> copy) {
  if (coded.size() < kDifferencesHeaderBytes)
    return refuse("{} bytes came, which is less than a header of {}", coded.size(), kDifferencesHeaderBytes);
  State& s = *state_;
  const auto body = coded.subspan(kDifferencesHeaderBytes);
  s.after.resize(copy.size());
  switch (static_cast<unsigned>(coded[0])) {
    case kUnchanged:
      if (!body.empty()) return refuse("{} bytes follow a header that says \"unchanged\"", body.size());
      std::copy(copy.begin(), copy.end(), s.after.begin());
      break;
    case kPlain:
      if (body.size() != copy.size_bytes())
        return refuse("{} bytes follow a header that says \"plain\", expected {}", body.size(), copy.size_bytes());
      if (!body.empty()) std::memcpy(s.after.data(), body.data(), body.size());
      break;
    case kCoded: {
      s.folded.resize(copy.size());
      const MagnitudeGroups groups(copy, kGroupElementsMin);
      if (auto unpacked = s.unpack(body, groups); !unpacked) return unpacked;
      s.apply(copy, groups);
      break;
    }
    default:
      return refuse("its format is {}, expected 0, 1 or 2", static_cast<unsigned>(coded[0]));
  }
  uint32_t expected = 0;
  std::memcpy(&expected, coded.data() + 1, sizeof expected);
  if (const uint32_t found = checksum_of_copy(s.after); found != expected) {
    return refuse(
        "the new copy's checksum is {:08x}, expected {:08x}: bytes were altered on the way, or the copy before the step "
        "is not the sender's",
        found, expected);
  }
  std::copy(s.after.begin(), s.after.end(), copy.begin());
  return {};
}

}  // namespace holdfast::worker
