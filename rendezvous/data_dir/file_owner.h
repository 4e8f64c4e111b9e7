// The owner of files that root makes in a service's folder: the folder's owner, because else the service could not open them.
#pragma once

#include <string>

namespace holdfast::rendezvous {

// Gives `path`, and everything in it if it is a folder, to the owner and group of the folder `like`. Does nothing if this
// process is not root's, or if `path` does not exist. Throws StoreError.
void give_to_owner_of(const std::string& like, const std::string& path);

}  // namespace holdfast::rendezvous
