cmake_minimum_required(VERSION 3.25)
# Writes ${OUT}: report/report.html and tools/trace/trace.html below ${ROOT} as strings
# (report/page.hpp), so that the program can write pages without the sources.
set(text "// Written by embed_pages.cmake.\n#include \"verification/report/page.hpp\"\n\n")
string(APPEND text "namespace zeroproof::verification {\n\n")
foreach(page IN ITEMS report/report tools/trace/trace)
  cmake_path(GET page FILENAME name)
  file(READ ${ROOT}/${page}.html content)
  string(APPEND text "const char* const ${name}_page = R\"page(${content})page\";\n")
endforeach()
string(APPEND text "\n}  // namespace zeroproof::verification\n")
file(WRITE ${OUT} "${text}")
