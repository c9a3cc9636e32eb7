# Finds Arrow C++: the system's package first, else the libraries and headers that the pinned pyarrow wheel carries.
#
# Defines the target sarissa::arrow. SARISSA_PYTHON names the interpreter whose site-packages hold pyarrow
# (scripts/bootstrap makes it: .venv/bin/python in the source tree).
find_package(Arrow QUIET CONFIG)
if(Arrow_FOUND AND Arrow_VERSION VERSION_GREATER_EQUAL 26)
  add_library(sarissa::arrow INTERFACE IMPORTED)
  target_link_libraries(sarissa::arrow INTERFACE Arrow::arrow_shared)
  if(TARGET ArrowCompute::arrow_compute_shared)
    target_link_libraries(sarissa::arrow INTERFACE ArrowCompute::arrow_compute_shared)
  endif()
  set(SarissaArrow_FOUND TRUE)
  message(STATUS "Arrow ${Arrow_VERSION} from the system")
  return()
endif()

set(SARISSA_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "Python that has pyarrow")
execute_process(
  COMMAND "${SARISSA_PYTHON}" -c "import pyarrow, os; print(os.path.dirname(pyarrow.__file__)); print(pyarrow.__version__)"
  OUTPUT_VARIABLE _wheel OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _failed)
if(_failed)
  message(FATAL_ERROR "No Arrow: neither a system package nor pyarrow in ${SARISSA_PYTHON}. Run scripts/bootstrap.")
endif()
string(REPLACE "\n" ";" _wheel "${_wheel}")
list(GET _wheel 0 _dir)
list(GET _wheel 1 _version)
file(GLOB _libarrow "${_dir}/libarrow.so.*[0-9]")
file(GLOB _libcompute "${_dir}/libarrow_compute.so.*[0-9]")
list(GET _libarrow 0 _libarrow)
list(GET _libcompute 0 _libcompute)
add_library(sarissa::arrow_core SHARED IMPORTED)
set_target_properties(sarissa::arrow_core PROPERTIES IMPORTED_LOCATION "${_libarrow}"
  INTERFACE_INCLUDE_DIRECTORIES "${_dir}/include" INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${_dir}/include")
add_library(sarissa::arrow_compute SHARED IMPORTED)
set_target_properties(sarissa::arrow_compute PROPERTIES IMPORTED_LOCATION "${_libcompute}"
  INTERFACE_LINK_LIBRARIES sarissa::arrow_core)
add_library(sarissa::arrow INTERFACE IMPORTED)
target_link_libraries(sarissa::arrow INTERFACE sarissa::arrow_compute sarissa::arrow_core)
set(SarissaArrow_FOUND TRUE)
message(STATUS "Arrow ${_version} from the pyarrow wheel in ${_dir}")
