// The mark of a restore: the file DATA_DIR/holdfast.restored. It tells the service that its database was put back from a copy,
// which may be older than the checkpoints beside it. A restore makes it before the database gets its name. The first start of
// the service that has looked for unknown checkpoints removes it.
#pragma once

#include <string>

namespace holdfast::rendezvous {

std::string restored_mark(const std::string& data_dir);
// The mark is durable when the call returns. Throws StoreError.
void set_restored_mark(const std::string& data_dir);
bool has_restored_mark(const std::string& data_dir);
// If the file cannot be removed, this is logged. The next start then looks again, which does no harm.
void remove_restored_mark(const std::string& data_dir);

}  // namespace holdfast::rendezvous
