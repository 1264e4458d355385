#!/bin/sh
# Draws format_perplexity.svg from the record: held-out perplexity on the way, and at the end beside parameters of bf16.
#   sh papers/figures/format_perplexity.sh > papers/figures/format_perplexity.svg
exec awk -F ' [|] ?' '
function px(step) { return 50 + 230 * step / 300 }
function py(value) { return 330 - 300 * log(value / 15) / log(100 / 15) }  # logarithmic, from 15 to 100
function dx(percent) { return 600 + 60 * percent }
function label(x, y, anchor, text) { printf "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text }
function line(x1, y1, x2, y2, colour) {
  printf "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour
}
function colour_of(form) { return form ~ /^parameters bf16/ ? "black" : form ~ /^parameters/ ? "#1f618d" : form ~ /^exp/ ? "#b9770e" : "#c0392b" }
/^# format/ { steps = split($3, at, " ") - 3; for (k = 1; k <= steps; ++k) at[k] = at[k + 2] }
/^#/ { next }
{
  if (!($1 in seeds)) form[++forms] = $1
  ++seeds[$1]
  split($3, values, " ")
  for (k = 1; k <= steps; ++k) found[$1, seeds[$1], k] = values[k]
}
END {
  print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 380\" font-family=\"sans-serif\" font-size=\"12\">"
  print "<rect width=\"800\" height=\"380\" fill=\"white\"/>"
  print "<path d=\"M50 20V330H290M600 20V330\" fill=\"none\" stroke=\"black\"/>"
  for (k = 0; k <= 300; k += 100) label(px(k), 347, "middle", k)
  split("15 20 30 50 100", marks, " ")
  for (k = 1; k <= 5; ++k) label(44, py(marks[k]) + 4, "end", marks[k])
  label(170, 365, "middle", "steps"); label(58, 16, "start", "perplexity, three seeds of every form")
  for (f = forms; f >= 1; --f) {
    for (s = 1; s <= seeds[form[f]]; ++s) {
      points = ""
      for (k = 1; k <= steps; ++k) points = points sprintf("%.1f,%.1f ", px(at[k]), py(found[form[f], s, k]))
      printf "<polyline fill=\"none\" stroke=\"%s\" points=\"%s\"/>\n", colour_of(form[f]), points
    }
  }
  least = most = found[form[1], 1, steps]; mean = 0
  for (s = 1; s <= seeds[form[1]]; ++s) {
    value = found[form[1], s, steps]; mean += value / seeds[form[1]]
    if (value < least) least = value
    if (value > most) most = value
  }
  printf "<rect x=\"%.1f\" y=\"20\" width=\"%.1f\" height=\"310\" fill=\"#cccccc\" fill-opacity=\"0.5\"/>\n",
    dx(100 * (least / mean - 1)), dx(100 * (most / mean - 1)) - dx(100 * (least / mean - 1))
  for (k = -1; k <= 3; ++k) { label(dx(k), 347, "middle", k "%"); line(dx(k), 330, dx(k), 334, "black") }
  label(660, 365, "middle", "last perplexity from that of bf16, same seed")
  for (f = 2; f <= forms; ++f) {
    y = 34 + 26 * (f - 2)
    label(520, y + 4, "end", form[f])
    line(530, y, 790, y, "#dddddd")
    for (s = 1; s <= seeds[form[f]]; ++s) {
      percent = 100 * (found[form[f], s, steps] / found[form[1], s, steps] - 1)
      printf "<circle cx=\"%.1f\" cy=\"%d\" r=\"4\" fill=\"%s\"/>\n", dx(percent), y, colour_of(form[f])
    }
  }
  print "</svg>"
}' "$(dirname -- "$0")/../../verification/bench/records/format_perplexity.txt"
