// Texts that people type and that others see on their terminals.
#pragma once

#include <string>

namespace holdfast::rendezvous {

// Of Unicode, in UTF-8: U+0000 to U+001F, U+007F, and U+0080 to U+009F, which terminals take for commands, too.
bool has_control_characters(const std::string& text);

}  // namespace holdfast::rendezvous
