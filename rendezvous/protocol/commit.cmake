# Writes the commit that is built into a source, when it has changed: cmake -DSOURCE=FOLDER -DOUTPUT=FILE -P commit.cmake
set(commit "")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty=+changes --exclude=* --abbrev=9
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
[[#include "rendezvous/protocol/commit.h"

namespace holdfast::rendezvous {

const char* build_commit() {
  return "@commit@";
}

}  // namespace holdfast::rendezvous
]] @ONLY)
