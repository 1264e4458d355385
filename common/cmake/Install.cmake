# Targets that other projects link, under the same names with find_package(zeroproof) and
# add_subdirectory():
#
#   zeroproof::reference, zeroproof::production   the two implementations of the sharded step, and their operations
#   zeroproof::compare                            the comparison of buffers, as bits
#   zeroproof::common                             shared types: layouts, communicators, setups
#   zeroproof::mpi                                the communicator over MPI, if this build has MPI
#
# Headers are included with the project's name in front:
# <zeroproof/reference/distributed_optimizer.hpp>. They include each other as "common/...", so the
# folder below is searched too.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# zp_headers(<out-var> <header>...): these headers, named from the root, and all of this project that they include.
function(zp_headers out)
  set(found "")
  set(todo ${ARGN})
  while(todo)
    list(POP_FRONT todo header)
    if(header IN_LIST found)
      continue()
    endif()
    list(APPEND found ${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} lines REGEX "^#include \"")
    list(TRANSFORM lines REPLACE "^#include \"([^\"]+)\".*" "\\1")
    list(APPEND todo ${lines})
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# zp_public_library(<target> <name> [<header>...]): the static library becomes zeroproof::<name>; these headers, as globs
# from the root, and what they include are installed with it.
function(zp_public_library target name)
  set(headers "")
  if(ARGN)
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE globs)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${globs})
  endif()
  zp_headers(headers ${headers})
  foreach(header IN LISTS headers)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/zeroproof/${folder})
  endforeach()
  set(include $<INSTALL_PREFIX>/${CMAKE_INSTALL_INCLUDEDIR})
  target_include_directories(${target} INTERFACE "$<INSTALL_INTERFACE:${include};${include}/zeroproof>")
  target_compile_features(${target} INTERFACE cxx_std_20)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT zeroproof ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

  # Inside of one build the layers must not include each other, so only the public name adds the
  # include root.
  add_library(zp_public_${name} INTERFACE)
  target_link_libraries(zp_public_${name} INTERFACE ${target})
  target_include_directories(zp_public_${name} INTERFACE ${PROJECT_BINARY_DIR}/include/public
    ${PROJECT_BINARY_DIR}/include/public/zeroproof)
  add_library(zeroproof::${name} ALIAS zp_public_${name})
endfunction()

# zp_install_package(): the package for find_package(zeroproof).
function(zp_install_package)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include/public/zeroproof)
  foreach(layer IN ITEMS common reference cuda verification)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${layer} ${PROJECT_BINARY_DIR}/include/public/zeroproof/${layer} SYMBOLIC)
  endforeach()
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/zeroproof)
  install(TARGETS zp_fp_flags EXPORT zeroproof)
  install(EXPORT zeroproof NAMESPACE zeroproof:: DESTINATION ${folder} FILE zeroproof-targets.cmake)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/common/cmake/zeroproof-config.cmake.in
    ${PROJECT_BINARY_DIR}/zeroproof-config.cmake INSTALL_DESTINATION ${folder} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/zeroproof-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/zeroproof-config.cmake ${PROJECT_BINARY_DIR}/zeroproof-config-version.cmake
    DESTINATION ${folder})
endfunction()

# zp_export_build_tree(): the libraries of this build tree, for tests of the Python package.
function(zp_export_build_tree)
  if(NOT ZP_HARNESS)
    return()
  endif()
  set(libraries zp_fp_flags zp_common zp_io zp_config zp_quantization zp_compare zp_workload zp_reference zp_cuda zp_device zp_device_sim
    zp_verification zp_no_faults zp_faults)
  if(ZP_HAVE_MPI)
    list(APPEND libraries zp_mpi)
  endif()
  export(TARGETS ${libraries} FILE ${PROJECT_BINARY_DIR}/build-tree.cmake)
endfunction()
