// Whether an object of a checkpoint is whole, by its key and bytes alone. Internal to storage/copies.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "storage/object_store.h"

namespace holdfast::storage {

// The object, read from a place and whole there; an error otherwise: kCorrupt for bytes that are not the object's.
Result<Bytes> get_whole(ObjectStore& store, const std::string& key);

// "step-0000000060/manifest.json" -> 60; nothing for other keys.
std::optional<int64_t> step_of_manifest(const std::string& key);

}  // namespace holdfast::storage
