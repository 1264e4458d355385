cmake_minimum_required(VERSION 3.25)
# Writes ${OUT}: the state of the sources in ${ROOT} that a program is built from
# (report/source_state.hpp), git's hash of their contents, "" without git. ${PATTERNS}: the
# pathspecs of source_patterns.
execute_process(COMMAND git ls-files --error-unmatch CMakeLists.txt
  WORKING_DIRECTORY ${ROOT} RESULT_VARIABLE unknown OUTPUT_QUIET ERROR_QUIET)
separate_arguments(patterns UNIX_COMMAND "${PATTERNS}")
execute_process(COMMAND git ls-files -- ${patterns} COMMAND git hash-object --stdin-paths
  COMMAND git hash-object --stdin
  WORKING_DIRECTORY ${ROOT} OUTPUT_VARIABLE stamp RESULTS_VARIABLE failed ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(unknown OR NOT failed STREQUAL "0;0;0")
  set(stamp "")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "// Written by stamp_sources.cmake.
#include \"verification/report/source_state.hpp\"

namespace zeroproof::verification {

const char* const source_stamp = \"@stamp@\";

}  // namespace zeroproof::verification
" @ONLY)
