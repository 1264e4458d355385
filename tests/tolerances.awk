# Finds tolerances that somebody set by hand: comparisons with a small number (1e-3 and below, 0x1p-8 and below), and
# the functions and constants of libraries that hide one. The first file is the list of those that are none. Prints
# what is found, one line each; comments do not count. `names`: a file with the names of more files.
function trimmed(text) {
  gsub(/^[ \t]+|[ \t]+$/, "", text)
  return text
}
BEGIN {
  while (names != "" && (getline name < names) > 0) ARGV[ARGC++] = name  # more than a command line may hold
}
FNR == NR {
  if ($0 ~ /^[ \t]*(#|$)/) next
  parts = split($0, part, "|")
  if (parts != 3 || trimmed(part[1]) == "" || trimmed(part[2]) == "" || trimmed(part[3]) == "") {
    print "  " FILENAME ":" FNR ": a row is FILE | TEXT | WHERE THE NUMBER IS FROM"
    next
  }
  rows++
  row_file[rows] = trimmed(part[1])
  row_text[rows] = trimmed(part[2])
  row_line[rows] = FNR
  list = FILENAME
  next
}
{
  text = $0
  if (FILENAME ~ /\.(py|sh)$/) sub(/(^|[ \t])#.*/, "", text)
  else sub(/[ \t]*(\/\/|\/\*).*/, "", text)
  named = text ~ /allclose|assert_close|isclose|assertAlmostEqual|Approx\(|(EXPECT|ASSERT)_(NEAR|FLOAT_EQ|DOUBLE_EQ)|(FLT|DBL)_EPSILON|::epsilon\(\)|finfo\(/
  small = "([0-9.]+[eE]-0*([3-9]|[1-9][0-9]+)|0[xX][0-9a-fA-F.]+[pP]-0*([89]|[1-9][0-9]+))"
  compared = text ~ (" (<|<=|>|>=) [^;,]*" small) || text ~ (small "[fFlL]?( [*\\/+] [^;,]*)? (<|<=|>|>=) ")
  if (!named && !compared) next
  for (r = 1; r <= rows; r++) {
    if (row_file[r] == FILENAME && index($0, row_text[r]) > 0) {
      used[r] = 1
      next
    }
  }
  print "  " FILENAME ":" FNR ": " trimmed($0)
}
END {
  for (r = 1; r <= rows; r++) {
    if (!(r in used)) print "  " list ":" row_line[r] ": no line of " row_file[r] " needs this row"
  }
}
