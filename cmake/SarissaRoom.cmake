# sarissa_room(NAME memwal SOURCES a.cc b.cc ROOMS lance object_store LINKS some::library)
#
# One static library per room. A room sees the headers of itself and of the rooms below it, and of nothing else: every room
# has an include root of its own that holds one link to its folder, so an upward #include does not compile.
function(sarissa_room)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;ROOMS;LINKS;PRIVATE_LINKS" ${ARGN})
  set(root "${CMAKE_BINARY_DIR}/rooms/${ARG_NAME}")
  file(MAKE_DIRECTORY "${root}")
  file(CREATE_LINK "${CMAKE_SOURCE_DIR}/src/${ARG_NAME}" "${root}/${ARG_NAME}" SYMBOLIC)
  add_library(sarissa_${ARG_NAME} STATIC ${ARG_SOURCES})
  target_include_directories(sarissa_${ARG_NAME} PUBLIC "${root}")
  foreach(room IN LISTS ARG_ROOMS)
    target_link_libraries(sarissa_${ARG_NAME} PUBLIC sarissa_${room})
  endforeach()
  target_link_libraries(sarissa_${ARG_NAME} PUBLIC ${ARG_LINKS} PRIVATE sarissa_flags ${ARG_PRIVATE_LINKS})
endfunction()
