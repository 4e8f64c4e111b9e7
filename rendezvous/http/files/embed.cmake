# Writes OUTPUT, a .cpp that holds the bytes of FILES (paths), and with them the function that HEADER declares in NAMESPACE:
# const rendezvous::StaticFile* FUNCTION(std::string_view name), by the names of files without their folders.
#   cmake "-DFILES=/a.js;/b.css" -DOUTPUT=page_files.cpp -DHEADER=page_files.h -DNAMESPACE=holdfast::worker -DFUNCTION=… -P embed.cmake
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

set(arrays "")
set(rows "")
set(number 0)
foreach(path IN LISTS FILES)
  get_filename_component(name ${path} NAME)
  get_filename_component(ending ${name} LAST_EXT)
  string(SUBSTRING ${ending} 1 -1 ending)
  if(NOT DEFINED type_${ending})
    message(FATAL_ERROR "${name}: embed.cmake knows no content type for .${ending}")
  endif()
  file(READ ${path} hex HEX)
  file(SHA256 ${path} digest)
  string(SUBSTRING ${digest} 0 16 digest)
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${hex}")
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(APPEND arrays "constexpr char kFile${number}[] = \"${bytes}\";  // ${name}\n")
  string(APPEND rows "    {\"${name}\", \"${type_${ending}}\", {kFile${number}, ${length}}, \"\\\"${digest}\\\"\"},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUTPUT} "// Made by embed.cmake.
#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {

${arrays}
constexpr rendezvous::StaticFile kFiles[] = {
${rows}};

}  // namespace

const rendezvous::StaticFile* ${FUNCTION}(std::string_view name) {
  for (const rendezvous::StaticFile& file : kFiles) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace ${NAMESPACE}
")
