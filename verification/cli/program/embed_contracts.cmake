cmake_minimum_required(VERSION 3.25)
# Writes ${OUT}: the headers of common/contracts below ${ROOT} as a table of strings, the files of the implementations, the numeric
# contract and the notes on papers, so that the program can show them without the sources.
set(text "// Written by verification/cli/program/embed_contracts.cmake from common/contracts.\n#include \"verification/cli/program/contract_text.hpp\"\n#include \"verification/cli/program/document_text.hpp\"\n\n")
# A list of std::string would take the compiler seconds, a table of literals takes it nothing.
string(APPEND text "namespace zeroproof::verification {\nnamespace {\n\ntemplate <class Row, std::size_t count>\n"
  "std::vector<Row> rows(const char* const (&table)[count][2]) {\n  std::vector<Row> all;\n"
  "  for (const auto& row : table) all.push_back({row[0], row[1]});\n  return all;\n}\n\n")
string(APPEND text "constexpr const char* header_table[][2] = {\n")
file(GLOB headers ${ROOT}/common/contracts/*.hpp)
foreach(header IN LISTS headers)
  cmake_path(GET header FILENAME name)
  # Not file(READ) into a list: semicolons and brackets of the source must survive.
  file(READ ${header} content)
  string(APPEND text "    {\"${name}\", R\"contract(${content})contract\"},\n")
endforeach()
string(APPEND text "};\n\n")

# Which file has the implementation of which operation: functions that begin a line.
string(APPEND text "constexpr const char* implementation_table[][2] = {\n")
set(results "void|bool|int|float|double|StepScalars|LossScalerState|std::vector<TreeNode>|std::unique_ptr<LbfgsOptimizer>")
set(folders formats gradients update layers)
list(TRANSFORM folders PREPEND reference/ OUTPUT_VARIABLE reference_folders)
list(TRANSFORM folders PREPEND cuda/host/ OUTPUT_VARIABLE host_folders)
list(TRANSFORM folders PREPEND cuda/device/kernels/ OUTPUT_VARIABLE device_folders)
foreach(folder IN ITEMS reference ${reference_folders} reference/step reference/zero/plain
    reference/zero/sharded reference/lbfgs cuda cuda/optimizer cuda/lbfgs ${host_folders} ${device_folders})
  file(GLOB sources RELATIVE ${ROOT} ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu)
  foreach(source IN LISTS sources)
    file(STRINGS ${ROOT}/${source} lines REGEX "^(${results}) [a-z0-9_]+\\(")
    foreach(line IN LISTS lines)
      if(line MATCHES "^(${results}) ([a-z0-9_]+)\\(")
        string(APPEND text "    {\"${source}\", \"${CMAKE_MATCH_2}\"},\n")
        list(APPEND functions ${CMAKE_MATCH_2})
      endif()
    endforeach()
  endforeach()
endforeach()
# Tests by hand: those of the reference that call the function.
list(REMOVE_DUPLICATES functions)
file(GLOB tests RELATIVE ${ROOT} ${ROOT}/tests/reference/*/*_test.cpp)
foreach(test IN LISTS tests)
  file(READ ${ROOT}/${test} content)
  foreach(function IN LISTS functions)
    if(content MATCHES "[^a-z0-9_]${function}\\(")
      string(APPEND text "    {\"${test}\", \"${function}\"},\n")
    endif()
  endforeach()
endforeach()
string(APPEND text "};\n\n")

# The rules, and the notes whose labels they and the code cite.
string(APPEND text "constexpr const char* document_table[][2] = {\n")
file(GLOB notes RELATIVE ${ROOT} ${ROOT}/papers/*.md)
foreach(document IN ITEMS common/CONTRACT.md ${notes})
  file(READ ${ROOT}/${document} content)
  string(APPEND text "    {\"${document}\", R\"document(${content})document\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\n")
foreach(function IN ITEMS "ContractHeader contract_headers header" "ImplementationFile implementation_files implementation" "Document documents document")
  string(REGEX MATCH "(.*) (.*) (.*)" ignored "${function}")
  string(APPEND text "const std::vector<${CMAKE_MATCH_1}>& ${CMAKE_MATCH_2}() {\n"
    "  static const std::vector<${CMAKE_MATCH_1}> all = rows<${CMAKE_MATCH_1}>(${CMAKE_MATCH_3}_table);\n  return all;\n}\n\n")
endforeach()
string(APPEND text "}  // namespace zeroproof::verification\n")
file(WRITE ${OUT} "${text}")
