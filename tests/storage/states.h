// Small states for tests of checkpoints, made from a seed, with the kinds of tensors of a training state: floats, moments and
// integers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "storage/checkpoint.h"

namespace holdfast::storage::testing {

struct Tensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

class State {
 public:
  // Makes float tensors, Adam's moments, a bfloat16 tensor, an empty tensor and some integers.
  explicit State(uint32_t seed, int64_t rows = 37, int64_t columns = 53) : random_(seed) {
    floats("wte.weight", {rows, columns}, 0.02F, false);
    floats("h.0.bias", {columns}, 0.01F, false);
    halves("h.0.cache", {3, columns});
    add("nothing", "float32", {0, columns}, 0);
    floats("exp_avg_sq/wte.weight", {rows, columns}, 1e-4F, true);
    integers("reduction/exponents", {columns});
  }

  std::vector<ConstTensor> tensors() const {
    std::vector<ConstTensor> list;
    for (const Tensor& t : tensors_) list.push_back({t.name, t.dtype, t.shape, t.bytes});
    return list;
  }
  std::vector<MutableTensor> writable() {
    std::vector<MutableTensor> list;
    for (Tensor& t : tensors_) list.push_back({t.name, t.dtype, t.shape, t.bytes});
    return list;
  }
  // A state of the same shapes whose bytes are all 0xee.
  State blank() const {
    State copy = *this;
    for (Tensor& t : copy.tensors_) t.bytes.assign(t.bytes.size(), std::byte{0xee});
    return copy;
  }
  bool operator==(const State& other) const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].bytes != other.tensors_[i].bytes) return false;
    }
    return tensors_.size() == other.tensors_.size();
  }
  std::vector<Tensor>& list() { return tensors_; }

 private:
  std::vector<std::byte>& add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape, size_t width) {
    size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
    tensors_.push_back({name, dtype, std::move(shape), std::vector<std::byte>(count * width)});
    return tensors_.back().bytes;
  }
  void floats(const std::string& name, std::vector<int64_t> shape, float scale, bool squared) {
    auto& bytes = add(name, "float32", std::move(shape), 4);
    std::normal_distribution<float> normal(0, scale);
    for (size_t i = 0; i < bytes.size(); i += 4) {
      float value = normal(random_);
      if (squared) value *= value;
      std::memcpy(&bytes[i], &value, 4);
    }
  }
  void halves(const std::string& name, std::vector<int64_t> shape) {
    auto& bytes = add(name, "bfloat16", std::move(shape), 2);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
  }
  void integers(const std::string& name, std::vector<int64_t> shape) {
    auto& bytes = add(name, "int32", std::move(shape), 4);
    for (size_t i = 0; i < bytes.size(); i += 4) {
      const auto value = static_cast<int32_t>(random_() % 40) - 20;
      std::memcpy(&bytes[i], &value, 4);
    }
  }

  std::mt19937 random_;
  std::vector<Tensor> tensors_;
};

inline Manifest manifest_at(int64_t step, int64_t generation = 1) {
  Manifest manifest;
  manifest.job = "j1";
  manifest.step = step;
  manifest.generation = generation;
  manifest.spec = {{"n_layer", 2}, {"n_embd", 53}};
  manifest.data = {{"train", "d1"}};
  return manifest;
}

}  // namespace holdfast::storage::testing
