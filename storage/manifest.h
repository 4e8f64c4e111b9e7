// A manifest, or a writer's part of one, to and from the bytes of its object. FORMAT.md states every field.
//
// Promises: a manifest that parses is the one that was written (it carries its own checksum), and hangs together: sizes
// add up, keys are of this checkpoint, no shard cuts an element.
// Refuses: anything else, naming the field; a newer format, naming who wrote it.
#pragma once

#include <span>
#include <string>

#include "storage/checkpoint.h"
#include "storage/checkpoint_parts.h"

namespace holdfast::storage {

// Fails (kRefused) when a string in it is not UTF-8.
Result<std::string> format_manifest(const Manifest& manifest);
// `name` is the object's, for errors; `step` is the one expected.
Result<Manifest> parse_manifest(std::span<const std::byte> bytes, const std::string& name, int64_t step);

std::string format_part(const Part& part);
Result<Part> parse_part(std::span<const std::byte> bytes, const std::string& name, int64_t step);

std::string this_writer();  // "holdfast 0.1.0"

// "manifest.json in /ckpt/step-…": an object's name and place, for errors.
std::string object_name(const ObjectStore& store, const std::string& key);

}  // namespace holdfast::storage
