// An object store whose puts pass the fault point "checkpoint_object" first.
//
// Promises: with no fault points armed the store itself is handed back, and nothing stands in its way.
#pragma once

#include <memory>

#include "storage/object_store.h"

namespace holdfast::worker {

std::unique_ptr<storage::ObjectStore> with_fault_points(std::unique_ptr<storage::ObjectStore> store);

}  // namespace holdfast::worker
