# Prints a source file with every whole-line comment that is wider than `width` bytes cut; what is cut off goes on where
# the next line goes on with the sentence, and else has a line of its own. Below a field of a doc block ("Errors   if
# ...") it is indented like the field's text.
function hang_of(text) {
  return match(text, /^([A-Za-z_0-9]+:?  +|[-*] +|  +)/) ? sprintf("%" RLENGTH "s", "") : ""
}
function drop_carry() {
  if (carry != "") print carry_prefix carry_hang carry
  carry = ""
}
{
  line = $0
  if (carry != "") {
    start = carry_prefix carry_hang
    if (substr(line, 1, length(start)) == start && substr(line, length(start) + 1) ~ /^[a-z][^ ]* [^ ]/) {
      line = start carry " " substr(line, length(start) + 1)
      carry = ""
    } else {
      drop_carry()
    }
  }
  if (length(line) <= width || !match(line, /^ *\/\/\/?<? /)) { print line; next }
  prefix = substr(line, 1, RLENGTH)
  text = substr(line, RLENGTH + 1)
  hang = hang_of(text)
  at = width - length(prefix) + 1
  while (at > 1 && substr(text, at, 1) != " ") --at
  if (at <= length(hang) + 1) { print line; next }
  print prefix substr(text, 1, at - 1)
  carry = substr(text, at + 1); carry_prefix = prefix; carry_hang = hang
}
END { drop_carry() }
