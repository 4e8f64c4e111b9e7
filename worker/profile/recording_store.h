// An object store whose puts are spans, on the thread of whoever puts: a checkpoint's writer and its helpers.
#pragma once

#include <memory>

#include "storage/object_store.h"

namespace holdfast::worker {

std::unique_ptr<storage::ObjectStore> with_spans(std::unique_ptr<storage::ObjectStore> store);

}  // namespace holdfast::worker
