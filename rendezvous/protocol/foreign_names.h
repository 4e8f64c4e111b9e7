// The flags that people know from elsewhere: torchrun's, those of nanoGPT's train.py, and those of guides for scripts like it.
//
// Promises: each name stands here once, and is no field of the job spec. A name with a field means the same as that field, so
// the command line takes it in the field's place; every other one is refused with what to write instead, and why. Names are
// without dashes and with underscores, as torchrun takes them too.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::rendezvous {

struct ForeignName {
  const char* name;     // "max_iters"
  const char* from;     // the program that people know it from: "nanoGPT"
  const char* field;    // of the job spec, which means the same; "": there is none
  const char* value;    // of a switch, the field's value ("float16" of fp16); "": the value that was typed
  const char* allowed;  // without a field: the value that asks for what is done anyway, so that it may stand; "": none
  const char* instead;  // without a field: a sentence or two
  // Of a field with other values there: "1=optimizer 2=gradients", theirs=ours. Behind a semicolon, for people: how theirs
  // differ, and what to add for the same. "": the same ones.
  const char* values = "";
};

std::span<const ForeignName> foreign_names();
// Null when nobody is known to use this name. Hyphens are taken for underscores.
const ForeignName* find_foreign_name(std::string_view name);
// The field's value for what was typed, of a name with values of its own: "gradients" for zero_stage 2. Of several words the
// first counts ("full_shard auto_wrap"), in upper case or lower. Nothing for another one.
std::optional<std::string> own_value(const ForeignName& name, std::string_view typed);
// For an error: "nanoGPT's max_iters is total_steps here", or "torchrun's rdzv_id has no counterpart: ...".
std::string foreign_name_in_words(const ForeignName& name);

}  // namespace holdfast::rendezvous
