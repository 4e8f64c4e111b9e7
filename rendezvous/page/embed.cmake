# Writes OUTPUT, a .cpp that holds the bytes of FILES (names in FOLDER) as the table of rendezvous/api/documents/page_files.h.
#   cmake "-DFILES=a.js;b.css" -DFOLDER=… -DOUTPUT=page_files.cpp -P embed.cmake
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

set(arrays "")
set(rows "")
set(number 0)
foreach(name IN LISTS FILES)
  get_filename_component(ending ${name} LAST_EXT)
  string(SUBSTRING ${ending} 1 -1 ending)
  if(NOT DEFINED type_${ending})
    message(FATAL_ERROR "${name}: embed.cmake knows no content type for .${ending}")
  endif()
  file(READ ${FOLDER}/${name} hex HEX)
  file(SHA256 ${FOLDER}/${name} digest)
  string(SUBSTRING ${digest} 0 16 digest)
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${hex}")
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(APPEND arrays "constexpr char kFile${number}[] = \"${bytes}\";  // ${name}\n")
  string(APPEND rows "    {\"${name}\", \"${type_${ending}}\", {kFile${number}, ${length}}, \"\\\"${digest}\\\"\"},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUTPUT} "// Made by embed.cmake from rendezvous/page/.
#include \"rendezvous/api/documents/page_files.h\"

namespace holdfast::rendezvous {
namespace {

${arrays}
constexpr PageFile kFiles[] = {
${rows}};

}  // namespace

const PageFile* find_page_file(std::string_view name) {
  for (const PageFile& file : kFiles) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace holdfast::rendezvous
")
