// For builds without a vendor's library: all products are our own.
#include "kernels/hip/library_products.h"

namespace holdfast::kernels::hip {

std::unique_ptr<LibraryProducts> make_library_products(const Stream&) {
  return nullptr;
}

}  // namespace holdfast::kernels::hip
