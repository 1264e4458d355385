# Prints a Markdown file with every paragraph and list item that is wider than `width` bytes wrapped anew. Tables, code,
# headings, quotes and HTML stay as they are; code spans and links are not cut. (Run it with LC_ALL=C: every awk then
# counts alike.)
BEGIN { fill = "" }

function flush_paragraph(  i, line, space) {
  if (!lines) return
  if (!too_wide || hard) {
    for (i = 1; i <= lines; ++i) print original[i]
  } else {
    wrap()
  }
  lines = 0
}

# Cuts text into words that stay whole; what may not begin a line of Markdown stays with the word before it.
function wrap(  count, i, at, c, word, words, inside, depth, line) {
  count = 0; word = ""; inside = 0; depth = 0
  for (at = 1; at <= length(text); ++at) {
    c = substr(text, at, 1)
    if (c == "`") inside = !inside
    if (!inside && c == "[") depth++
    if (!inside && c == "]" && depth > 0) depth--
    if (!inside && c == "(" && substr(text, at - 1, 1) == "]") depth++
    if (!inside && c == ")" && depth > 0) depth--
    if (c == " " && !inside && depth == 0) {
      if (word != "") words[++count] = word
      word = ""
    } else {
      word = word c
    }
  }
  if (word != "") words[++count] = word
  line = first words[1]
  for (i = 2; i <= count; ++i) {
    if (length(line) + 1 + length(words[i]) > width && words[i] !~ /^([-+*]|[0-9]+[.)]|#+|[|><].*)$/) {
      print line
      line = hang words[i]
    } else {
      line = line " " words[i]
    }
  }
  print line
}

function begin_paragraph(prefix, rest) {
  first = prefix; hang = prefix
  gsub(/[^ ]/, " ", hang)
  text = rest; lines = 1; original[1] = $0
  too_wide = length($0) > width
  hard = 0
}

/^ *(```|~~~)/ { flush_paragraph(); fenced = !fenced; print; next }
fenced { print; next }
/^[ \t]*$/ { flush_paragraph(); print; next }
/^ *(\||#|<|>|---|===|\[[^]]*\]:)/ { flush_paragraph(); print; next }
!lines && /^    / { print; next }
match($0, /^ *([-*+]|[0-9]+[.)]) +/) {
  flush_paragraph()
  begin_paragraph(substr($0, 1, RLENGTH), substr($0, RLENGTH + 1))
  next
}
{
  match($0, /^ */)
  rest = substr($0, RLENGTH + 1)
  if (!lines) {
    begin_paragraph(substr($0, 1, RLENGTH), rest)
  } else {
    text = text " " rest
    original[++lines] = $0
    if (length($0) > width) too_wide = 1
  }
  if ($0 ~ /(  |\\)$/) hard = 1
}
END { flush_paragraph() }
