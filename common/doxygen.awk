# Filter of common/Doxyfile. In a documentation comment a line "Shapes   ..." begins a paragraph with
# that title, and lines indented deeper than its text are formulas. The comment below "#pragma once"
# describes the file. Lines keep their numbers.
{
  formula = $0 ~ /^ *\/\/\/            +[^ ]/
  if (formula && !formulas) held = held " \\verbatim"
  if (!formula && formulas) held = held " \\endverbatim"
  formulas = formula
  if (formula) sub(/\/\/\/          /, "")  # copied as it is
}
NR == 2 && /^\/\/ / { held = "/// \\file"; of_file = 1 }
!/^\/\// { of_file = 0 }
of_file { $0 = "/" $0 }
/^ *\/\/\/ ([A-Z][a-z]+  |Contract )/ {
  match($0, /[A-Z][a-z]+/)
  $0 = substr($0, 1, RSTART - 1) "\\field{" substr($0, RSTART, RLENGTH) "}" substr($0, RSTART + RLENGTH)
}
NR > 1 { print held }
{ held = $0 }
END { print held }
