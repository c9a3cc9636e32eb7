# Warnings, sanitizers and ccache for every target of this project.

find_program(SARISSA_CCACHE ccache)
if(SARISSA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SARISSA_CCACHE}")
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Asserts stay on in every build: a storage engine that goes on after a broken invariant loses rows.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
if(SARISSA_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # compiles faster, and the reports name more frames
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

add_library(sarissa_flags INTERFACE)
target_compile_options(sarissa_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wno-sign-conversion -Werror -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 reports these inside optimised standard library code, not in ours.
  target_compile_options(sarissa_flags INTERFACE
    -Wno-maybe-uninitialized -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
    -Wno-dangling-pointer -Wno-free-nonheap-object)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12 calls a function that it deprecates itself (std::stable_sort).
  target_compile_options(sarissa_flags INTERFACE -Wno-deprecated-declarations)
endif()
target_compile_definitions(sarissa_flags INTERFACE _GLIBCXX_ASSERTIONS)
if(SARISSA_SYNC_POINTS)
  target_compile_definitions(sarissa_flags INTERFACE SARISSA_SYNC_POINTS=1)
endif()
if(SARISSA_SANITIZE)
  add_compile_options(-fsanitize=${SARISSA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SARISSA_SANITIZE})
endif()
if(SARISSA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SARISSA_FUZZ needs clang")
  endif()
  # Coverage for the fuzzers in all of our code; only the fuzzers themselves link libFuzzer.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
