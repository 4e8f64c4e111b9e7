// oneDNN and our own loops behind products.h.
#include "kernels/cpu/products.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cpu/amx/product.h"
#include "kernels/cpu/team.h"

namespace holdfast::kernels::cpu {
namespace {

dnnl::matmul::primitive_desc plan(const ProductShape& shape, const dnnl::engine& engine) {
  using dnnl::memory;
  const auto element = memory::data_type::f32;
  const memory::desc a({shape.m, shape.k}, element, memory::dims{shape.a.row, shape.a.column});
  const memory::desc b({shape.k, shape.n}, element, memory::dims{shape.b.row, shape.b.column});
  const memory::desc c({shape.m, shape.n}, element, memory::dims{shape.c_width, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);  // an environment variable could ask for less
  if (shape.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
}

}  // namespace

Products::Products(int threads, bool matrix_units)
    : matrix_units_(matrix_units), engine_(dnnl::engine::kind::cpu, 0), statuses_(static_cast<size_t>(threads), dnnl_success) {
  for (int i = 0; i < threads; ++i) streams_.emplace_back(engine_);
  scratchpads_.resize(static_cast<size_t>(threads));
}

Products::Key Products::key(const ProductShape& of) {
  return {of.m, of.k, of.n, of.a.row, of.a.column, of.b.row, of.b.column, of.c_width, of.add, of.bfloat16};
}

std::shared_ptr<const Product> Products::prepare(const ProductShape& shape) {
  ++uses_;
  if (const auto found = kept_.find(key(shape)); found != kept_.end()) {
    found->second.last_use = uses_;
    return found->second.product;
  }
  if (kept_.size() >= kMost) {
    kept_.erase(std::ranges::min_element(kept_, {}, [](const auto& one) { return one.second.last_use; }));
  }
  return kept_.emplace(key(shape), Kept{make(shape), uses_}).first->second.product;
}

std::shared_ptr<const Product> Products::make(const ProductShape& shape) {
  auto product = std::make_shared<Product>();
  product->owner_ = this;
  product->shape_ = shape;
  if (matrix_units_) {
    for (Scratch& scratchpad : scratchpads_) scratchpad.reserve(amx::scratch_bytes(shape) + amx::packed_bytes(shape));
  } else {
    set_up_onednn(*product);
  }
  return product;
}

void Products::set_up_onednn(Product& product) {
  const OneOpenMpThread one_thread;  // oneDNN plans for as many threads as OpenMP would give it
  const auto planned = plan(product.shape_, engine_);
  product.primitive_ = dnnl::matmul(planned);
  for (Scratch& scratchpad : scratchpads_) {
    scratchpad.reserve(planned.scratchpad_desc().get_size());
    const auto unplaced = [&](const dnnl::memory::desc& desc) { return dnnl::memory(desc, engine_, DNNL_MEMORY_NONE); };
    product.arguments_.push_back({unplaced(planned.src_desc()), unplaced(planned.weights_desc()), unplaced(planned.dst_desc()),
                                  unplaced(planned.scratchpad_desc())});
  }
}

void Product::run(int thread, const void* a, const void* b, float* c) const {
  const auto index = static_cast<size_t>(thread);
  if (!owner_->matrix_units_) return run_onednn(index, a, b, c);
  void* const packed = static_cast<char*>(owner_->scratchpads_[index].reserve(0)) + amx::scratch_bytes(shape_);
  amx::pack(shape_, b, packed);
  run_packed(thread, a, packed, c);
}

size_t Product::packed_bytes() const {
  return owner_->matrix_units_ ? amx::packed_bytes(shape_) : 0;
}

void Product::pack(const void* b, void* packed) const {
  if (owner_->matrix_units_) amx::pack(shape_, b, packed);
}

void Product::run_packed(int thread, const void* a, const void* b, float* c) const {
  const auto index = static_cast<size_t>(thread);
  if (!owner_->matrix_units_) return run_onednn(index, a, b, c);
  amx::run(shape_, a, b, c, owner_->scratchpads_[index].reserve(0));
}

void Product::run_onednn(size_t index, const void* a, const void* b, float* c) const {
  const Arguments& at = arguments_[index];
  at.a.set_data_handle(const_cast<void*>(a));
  at.b.set_data_handle(const_cast<void*>(b));
  at.c.set_data_handle(c);
  at.scratchpad.set_data_handle(owner_->scratchpads_[index].reserve(0));
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, at.a.get()},
                                       {DNNL_ARG_WEIGHTS, at.b.get()},
                                       {DNNL_ARG_DST, at.c.get()},
                                       {DNNL_ARG_SCRATCHPAD, at.scratchpad.get()}};
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), owner_->streams_[index].get(), 4, arguments);
  if (status != dnnl_success) owner_->statuses_[index] = status;
}

void Products::check() {
  for (dnnl_status_t& status : statuses_) {
    if (status == dnnl_success) continue;
    const int code = status;
    status = dnnl_success;
    throw std::runtime_error("oneDNN refused a matrix product with status " + std::to_string(code) +
                             " (dnnl_status_t); its numbers are not to be used");
  }
}

}  // namespace holdfast::kernels::cpu
