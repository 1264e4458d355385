# zp_test(<name> [LAYERS <layer>...] [LIBRARIES <target>...] [LABELS <label>...] SOURCES <file>...):
# a doctest program whose test cases are CTest tests.
function(zp_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LAYERS;LIBRARIES;LABELS;SOURCES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/tests/main.cpp)
  zp_layer_target(${name} ${arg_LAYERS})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)  # test code is not what is being tested
  target_include_directories(${name} SYSTEM PRIVATE ${ZP_DOCTEST_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  doctest_discover_tests(${name} TEST_PREFIX "${name}: " PROPERTIES ${properties})
endfunction()
