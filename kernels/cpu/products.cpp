// oneDNN behind products.h.
#include "kernels/cpu/products.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cpu/team.h"

namespace holdfast::kernels::cpu {
namespace {

dnnl::matmul::primitive_desc plan(const ProductShape& shape, const dnnl::engine& engine) {
  using dnnl::memory;
  const auto element = shape.bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc a({shape.m, shape.k}, element, memory::dims{shape.a.row, shape.a.column});
  const memory::desc b({shape.k, shape.n}, element, memory::dims{shape.b.row, shape.b.column});
  const memory::desc c({shape.m, shape.n}, memory::data_type::f32, memory::dims{shape.c_width, 1});
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

Products::Products(int threads) : engine_(dnnl::engine::kind::cpu, 0), statuses_(static_cast<size_t>(threads), dnnl_success) {
  for (int i = 0; i < threads; ++i) streams_.emplace_back(engine_);
  scratchpads_.resize(static_cast<size_t>(threads));
}

std::shared_ptr<const Product> Products::prepare(const ProductShape& shape) {
  ++uses_;
  if (const auto found = kept_.find(shape.key()); found != kept_.end()) {
    found->second.last_use = uses_;
    return found->second.product;
  }
  if (kept_.size() >= kMost) {
    kept_.erase(std::ranges::min_element(kept_, {}, [](const auto& one) { return one.second.last_use; }));
  }
  return kept_.emplace(shape.key(), Kept{make(shape), uses_}).first->second.product;
}

std::shared_ptr<const Product> Products::make(const ProductShape& shape) {
  const OneOpenMpThread one_thread;  // oneDNN plans for as many threads as OpenMP would give it
  const auto planned = plan(shape, engine_);
  auto product = std::make_shared<Product>();
  product->owner_ = this;
  product->primitive_ = dnnl::matmul(planned);
  for (Scratch& scratchpad : scratchpads_) {
    scratchpad.reserve(planned.scratchpad_desc().get_size());
    const auto unplaced = [&](const dnnl::memory::desc& desc) { return dnnl::memory(desc, engine_, DNNL_MEMORY_NONE); };
    product->arguments_.push_back({unplaced(planned.src_desc()), unplaced(planned.weights_desc()), unplaced(planned.dst_desc()),
                                   unplaced(planned.scratchpad_desc())});
  }
  return product;
}

void Product::run(int thread, const void* a, const void* b, float* c) const {
  const auto index = static_cast<size_t>(thread);
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
