add_test(NAME verification/recorded_python COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/../common/safetensors_python_test.sh
  $<TARGET_FILE:zeroproof> ${CMAKE_CURRENT_SOURCE_DIR}/recorded_python_test.py ${CMAKE_SOURCE_DIR}/README.md)
set_tests_properties(verification/recorded_python PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
