# One-way layers: common <- reference, common <- cuda, {reference, cuda} <- verification <- tests.
#
# A library's include root contains links to the layers it may use and nothing else, so an #include
# in the other direction fails with "No such file or directory".

# zp_include_root(<out-var> <layer>...): the include root with exactly these layers.
function(zp_include_root out)
  list(JOIN ARGN "-" key)
  set(root ${PROJECT_BINARY_DIR}/include/${key})
  file(MAKE_DIRECTORY ${root})
  foreach(layer IN LISTS ARGN)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${layer} ${root}/${layer} SYMBOLIC)
  endforeach()
  set(${out} ${root} PARENT_SCOPE)
endfunction()

# Most of the time of a compile goes into the standard library's headers: targets of many files read them once.
option(ZP_PCH "Precompile the standard headers of large targets" ON)

# zp_precompile(<target> <header>...): these headers (without angle brackets) besides the usual ones.
function(zp_precompile name)
  if(ZP_PCH)
    foreach(header IN ITEMS algorithm array cmath cstdint cstring functional map memory optional string string_view utility
        vector ${ARGN})
      target_precompile_headers(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>")
    endforeach()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # the compiler cache reads it
    endif()
  endif()
endfunction()

# Small sources with the same headers are compiled together; -DZP_UNITY=OFF makes rebuilds after
# small edits faster.
option(ZP_UNITY "Compile the sources of a folder together" ON)

# zp_read_together(<target> FOLDERS <folder>... [ALONE <regex>]): the sources of each of these folders (relative to the
# current one, `.` for itself) are one compile, except those that match the expression.
function(zp_read_together name)
  cmake_parse_arguments(arg "" "ALONE" "FOLDERS" ${ARGN})
  if(NOT ZP_UNITY)
    return()
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(folder IN LISTS arg_FOLDERS)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp ${folder}/*.cu)
    if(arg_ALONE)
      list(FILTER sources EXCLUDE REGEX "${arg_ALONE}")
    endif()
    string(REGEX REPLACE "[./]+" "_" group "top/${folder}")
    set_source_files_properties(${sources} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# zp_not_by_default(<target>...): built with the target `everything`, or by name.
function(zp_not_by_default)
  foreach(target IN LISTS ARGN)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(everything ${target})
  endforeach()
endfunction()

# zp_layer_library(<name> LAYERS <layer>... [SOURCES <file>...]): a static library with the contract's flags.
function(zp_layer_library name)
  cmake_parse_arguments(arg "" "" "LAYERS;SOURCES" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  zp_layer_target(${name} ${arg_LAYERS})
endfunction()

# Warnings are errors with the compilers of the project's own builds. Other compilers may warn where
# these do not (g++ 13 of array bounds inside of fmt), and that must not break the build of a user.
set(ZP_WERROR AUTO CACHE STRING "Warnings are errors: AUTO (with compilers this project is built with), ON or OFF")
set_property(CACHE ZP_WERROR PROPERTY STRINGS AUTO ON OFF)
set(zp_werror "")
if(ZP_WERROR STREQUAL "ON" OR (ZP_WERROR STREQUAL "AUTO"
    AND "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" MATCHES "^(GNU 12|Clang 14)\\."))
  set(zp_werror -Werror)
endif()

# zp_layer_target(<target> <layer>...): the same for a target that exists.
function(zp_layer_target name)
  zp_include_root(root ${ARGN})
  target_include_directories(${name} PRIVATE ${root})
  target_link_libraries(${name} PRIVATE zp_fp_flags)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic ${zp_werror}
    $<$<CXX_COMPILER_ID:GNU>:-Wmissing-declarations> $<$<CXX_COMPILER_ID:Clang>:-Wmissing-prototypes>>)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False positives of g++ in instrumented code, inside the standard library too; the ordinary
    # build keeps the warning.
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endfunction()
