# A program of its own, because it counts every allocation.
file(GLOB safetensors_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/safetensors*_test.cpp)
zp_test(test_safetensors LAYERS common tests LIBRARIES zp_safetensors_check zp_common SOURCES ${safetensors_sources})
target_sources(test_safetensors PRIVATE allocation_meter.cpp safetensors_hostile.cpp)

add_executable(safetensors_tool safetensors_tool.cpp safetensors_hostile.cpp)
zp_layer_target(safetensors_tool common tests)
target_link_libraries(safetensors_tool PRIVATE zp_common)
add_test(NAME safetensors/python COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/safetensors_python_test.sh
  $<TARGET_FILE:safetensors_tool> ${CMAKE_CURRENT_SOURCE_DIR}/safetensors_python_test.py)
set_tests_properties(safetensors/python PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
target_compile_options(safetensors_tool PRIVATE -O1)  # as zp_test does
