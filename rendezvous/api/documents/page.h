// GET /, /playground and /page/{}: the files of the page. They are the same for everybody, so they need no token. The browser
// asks each time whether its copy is the newest.
#pragma once

#include "rendezvous/api/turn/call.h"

namespace holdfast::rendezvous {

void get_page(Call& call);
void get_playground(Call& call);  // for the texts of jobs that serve

}  // namespace holdfast::rendezvous
