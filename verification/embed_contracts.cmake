# Writes ${OUT}: the headers of ${FOLDER} as one table of strings, so that the program can show them without the sources.
set(text "// Written by verification/embed_contracts.cmake from common/contracts.\n#include \"verification/contract_text.hpp\"\n\n")
string(APPEND text "namespace zeroproof::verification {\n\nconst std::vector<ContractHeader>& contract_headers() {\n")
string(APPEND text "  static const std::vector<ContractHeader> headers = {\n")
file(GLOB headers ${FOLDER}/*.hpp)
foreach(header IN LISTS headers)
  cmake_path(GET header FILENAME name)
  # Not file(READ) into a list: semicolons and brackets of the source must survive.
  file(READ ${header} content)
  string(APPEND text "      {\"${name}\", R\"contract(${content})contract\"},\n")
endforeach()
string(APPEND text "  };\n  return headers;\n}\n\n}  // namespace zeroproof::verification\n")
file(CONFIGURE OUTPUT ${OUT} CONTENT "@text@" @ONLY)
