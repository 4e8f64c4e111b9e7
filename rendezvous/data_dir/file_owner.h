// What root makes in a service's folder belongs to whom the folder belongs to, or the service could not open it.
#pragma once

#include <string>

namespace holdfast::rendezvous {

// Gives `path`, and all that is in it where it is a folder, to the owner and group of the folder `like`. Does nothing for
// anybody but root, and nothing about a path that is not there. Throws StoreError.
void give_to_owner_of(const std::string& like, const std::string& path);

}  // namespace holdfast::rendezvous
