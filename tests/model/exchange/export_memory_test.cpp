// The memory of an export, counted: that of the largest tensor and a little, whatever the size of the model.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "model/data/byte_tokenizer.h"
#include "model/exchange/gguf.h"
#include "model/exchange/npz.h"
#include "model/exchange/safetensors.h"
#include "tests/model/exchange/parameters.h"

namespace {

std::atomic<size_t> bytes_now{0}, bytes_most{0};

void* counted(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  const size_t now = bytes_now += ::malloc_usable_size(memory);
  for (size_t most = bytes_most; now > most && !bytes_most.compare_exchange_weak(most, now);) {
  }
  return memory;
}

void uncounted(void* memory) {
  if (memory != nullptr) bytes_now -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) {
  return counted(size);
}
void* operator new[](size_t size) {
  return counted(size);
}
void operator delete(void* memory) noexcept {
  uncounted(memory);
}
void operator delete[](void* memory) noexcept {
  uncounted(memory);
}
void operator delete(void* memory, size_t) noexcept {
  uncounted(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  uncounted(memory);
}

namespace holdfast::model {
namespace {

constexpr size_t kLittle = 1 << 20;  // pieces, names, the table

// Of 12 layers: the largest tensor is a tenth of the whole.
const Gpt2Config kDeep = {.n_layer = 12, .n_embd = 256, .n_head = 4, .vocab_size = 4000, .block_size = 64};

size_t most_bytes_of(const std::function<void()>& action) {
  const size_t before = bytes_now;
  bytes_most = before;
  action();
  return bytes_most - before;
}

TEST(MemoryOfAnExport, IsThatOfTheLargestTensor) {
  const std::vector<float> values(static_cast<size_t>(ParameterTable(kDeep).total), 0.5F);
  const WeightSource source = parameters_in(kDeep, values);
  const size_t largest = static_cast<size_t>(kDeep.vocab_size * kDeep.n_embd) * sizeof(float);
  ASSERT_GT(values.size() * sizeof(float), 10 * largest - 2 * kLittle);
  size_t written = 0;
  const ByteSink sink = [&written](std::span<const std::byte> bytes) { written += bytes.size(); };
  for (const auto dtype : {kernels::DType::kFloat32, kernels::DType::kFloat16}) {
    const GgufDescription description{"deep", dtype, *gguf_tokenizer(*make_byte_tokenizer(), kDeep.vocab_size)};
    EXPECT_LT(most_bytes_of([&] { ASSERT_TRUE(write_safetensors(source, hugging_face_tensors(kDeep, dtype), sink)); }),
              largest + kLittle);
    EXPECT_LT(most_bytes_of([&] { ASSERT_TRUE(write_npz(source, npz_tensors(kDeep, dtype), sink)); }), largest + kLittle);
    EXPECT_LT(most_bytes_of([&] { ASSERT_TRUE(write_gguf(source, description, gguf_tensors(kDeep, dtype), sink)); }),
              largest + kLittle);
  }
  EXPECT_GT(written, 4 * values.size() * sizeof(float));
}

}  // namespace
}  // namespace holdfast::model
