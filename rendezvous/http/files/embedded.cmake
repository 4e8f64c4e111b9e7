# add_embedded_files(TARGET FUNCTION NAMESPACE HEADER PATH…): a library with these files' bytes (embed.cmake), so that no file is read
# at run time.
function(add_embedded_files target function namespace header)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
  set(script ${PROJECT_SOURCE_DIR}/rendezvous/http/files/embed.cmake)
  add_custom_command(OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${ARGN}" -DOUTPUT=${generated} -DHEADER=${header} -DNAMESPACE=${namespace} -DFUNCTION=${function}
            -P ${script}
    DEPENDS ${ARGN} ${script}
    COMMENT "Embedding ${target}" VERBATIM)
  add_library(${target} STATIC ${generated})
  target_link_libraries(${target} PRIVATE holdfast_options holdfast_static_files)
endfunction()
