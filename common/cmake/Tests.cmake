# zp_test(<name> LAYERS <layer>... [LIBRARIES <target>...] [TIMEOUT <s>] [QUICK] [LONG <file>...] [SPLIT <file>...]
#         [NIGHTLY] SOURCES <file>...):
# one doctest program; every source file becomes one CTest test, "<name>/<file>". Every case of a
# file under SPLIT becomes its own test, "<name>/<file>/<number of the case>", so that several cores
# share them.
# QUICK gives the label quick to all files but those under LONG (stems, both).
# Cases whose names start with "slow: " or "nightly: " are left out there and become the test "<name>/slow/<file>" or
# "<name>/nightly/<file>" with that label.
# NIGHTLY gives that label to all tests of the program, and the gate does not build it.
function(zp_test name)
  cmake_parse_arguments(arg "QUICK;NIGHTLY" "TIMEOUT" "LAYERS;LIBRARIES;LONG;SPLIT;SOURCES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES} $<TARGET_OBJECTS:zp_test_main>)
  zp_layer_target(${name} ${arg_LAYERS})
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)  # test code need not be fast
  target_include_directories(${name} SYSTEM PRIVATE ${ZP_DOCTEST_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  zp_precompile(${name} doctest.h)
  # The files of a folder are compiled together; where two define the same name, each is in a namespace named after its file.
  set(folders "")
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder)
    list(APPEND folders ${folder})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  zp_read_together(${name} FOLDERS ${folders})
  string(REPLACE test_ "" group ${name})
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source STEM file)
    set(only --no-version --source-file=*/${file}.cpp)
    set(tests "")
    file(STRINGS ${source} cases REGEX "^TEST_CASE")
    list(FILTER cases EXCLUDE REGEX "\"(slow|nightly): ")
    if(NOT cases)
      # none without a label
    elseif(file IN_LIST arg_SPLIT)
      zp_case_tests(tests ${name} ${group}/${file} ${source} ${only})
    else()
      add_test(NAME ${group}/${file} COMMAND ${name} ${only} "--test-case-exclude=slow: *,nightly: *")
      list(APPEND tests ${group}/${file})
    endif()
    if(arg_NIGHTLY)
      set_tests_properties(${tests} PROPERTIES LABELS nightly)
    elseif(arg_QUICK AND NOT file IN_LIST arg_LONG)
      set_tests_properties(${tests} PROPERTIES LABELS quick)
    endif()
    foreach(label IN ITEMS slow nightly)
      file(STRINGS ${source} found REGEX "TEST_CASE.*\"${label}: ")
      if(found)
        add_test(NAME ${group}/${label}/${file} COMMAND ${name} ${only} "--test-case=${label}: *")
        set_tests_properties(${group}/${label}/${file} PROPERTIES LABELS ${label})
        list(APPEND tests ${group}/${label}/${file})
      endif()
    endforeach()
    # A file whose cases were all filtered out would pass without testing anything. 77: this machine
    # can run none of its cases (tests/support/skip.hpp).
    set_tests_properties(${tests} PROPERTIES TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${zp_test_environment}"
      FAIL_REGULAR_EXPRESSION "test cases: +0 " SKIP_RETURN_CODE 77)
  endforeach()
  if(arg_NIGHTLY)
    zp_not_by_default(${name})
  endif()
endfunction()

# zp_case_tests(<out-tests> <program> <prefix> <source> <argument>...): one test for every case of a source file.
function(zp_case_tests out program prefix source)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} cases REGEX "^TEST_CASE\\(\"")
  set(tests "")
  set(number 0)
  foreach(case IN LISTS cases)
    string(REGEX REPLACE "^TEST_CASE\\(\"(.*)\"\\).*" "\\1" case "${case}")
    if(case MATCHES "^(slow|nightly): ")
      continue()
    endif()
    math(EXPR number "${number} + 1")
    string(REPLACE "," "\\," pattern "${case}")  # doctest separates patterns by commas
    add_test(NAME ${prefix}/${number} COMMAND ${program} ${ARGN} "--test-case=${pattern}")
    list(APPEND tests ${prefix}/${number})
  endforeach()
  set(${out} ${tests} PARENT_SCOPE)
endfunction()
