// Says to a service that the database of its data directory was put back from a copy, which may be older than what lies
// beside it: DATA_DIR/holdfast.restored, made by a restore before the database has its name, removed by the first start that
// has looked.
#pragma once

#include <string>

namespace holdfast::rendezvous {

std::string restored_mark(const std::string& data_dir);
// Durable when it returns. Throws StoreError.
void set_restored_mark(const std::string& data_dir);
bool has_restored_mark(const std::string& data_dir);
// One that stays is looked at again at the next start, which does no harm.
void remove_restored_mark(const std::string& data_dir);

}  // namespace holdfast::rendezvous
