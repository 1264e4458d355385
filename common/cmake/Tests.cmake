# zp_test(<name> LAYERS <layer>... [LIBRARIES <target>...] [TIMEOUT <s>] SOURCES <file>...):
# one doctest program; every source file becomes one CTest test, "<name>/<file>". Cases whose names start with "slow: "
# are left out there and become the test "<name>/slow/<file>" with the label slow.
function(zp_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LAYERS;LIBRARIES;SOURCES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES} $<TARGET_OBJECTS:zp_test_main>)
  zp_layer_target(${name} ${arg_LAYERS})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)  # test code is not what is being tested
  target_include_directories(${name} SYSTEM PRIVATE ${ZP_DOCTEST_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source STEM file)
    string(REPLACE test_ "" group ${name})
    set(only --no-version --source-file=*${file}.cpp)
    add_test(NAME ${group}/${file} COMMAND ${name} ${only} "--test-case-exclude=slow: *")
    set(tests ${group}/${file})
    file(STRINGS ${source} slow REGEX "TEST_CASE.*\"slow: ")
    if(slow)
      add_test(NAME ${group}/slow/${file} COMMAND ${name} ${only} "--test-case=slow: *")
      set_tests_properties(${group}/slow/${file} PROPERTIES LABELS slow)
      list(APPEND tests ${group}/slow/${file})
    endif()
    # A file whose cases were all filtered out would pass without having tested anything.
    set_tests_properties(${tests} PROPERTIES TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${zp_test_environment}"
      FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  endforeach()
endfunction()
