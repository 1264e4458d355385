#!/bin/sh
# Draws sum_error.svg: error of [Sum:tree] and [Sum:left] against M, in fp32.   sh papers/figures/sum_error.sh > papers/figures/sum_error.svg
# awk computes in fp64; one more rounding to 24 bits (53 >= 2 * 24 + 2) gives the fp32 sum. Ties go either way, which does not
# matter here. The numbers come from a Lehmer generator, so the picture is the same everywhere.
exec awk '
function fp32(x,  c, high) { c = x * 536870913; high = c - x; return c - high }  # Veltkamp: 2^29 + 1
function uniform() { state = (state * 48271) % 2147483647; return state / 2147483647 }
function tree(low, width,  half) {  # the canonical tree over x[low .. min(low + width, M) - 1]
  if (width == 1) return x[low]
  half = width / 2
  if (low + half >= M) return tree(low, half)
  return fp32(tree(low, half) + tree(low + half, half))
}
function px(h) { return 60 + 48 * h }                          # log2 M
function py(e) { return 290 - 22 * (log(e) / log(2) + 2) }     # log2 of the error, from 1/4
function line(points, style) { printf "<polyline fill=\"none\" stroke-width=\"2\" %s points=\"%s\"/>\n", style, points }
function label(px_, py_, anchor, text) { printf "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", px_, py_, anchor, text }
BEGIN {
  state = 20240611; u = 2 ^ -24
  for (h = 1; h <= 10; ++h) {
    M = 2 ^ h; worst_tree = worst_left = 0
    for (trial = 0; trial < 2000; ++trial) {
      exact = 0
      for (j = 0; j < M; ++j) { x[j] = fp32(1 + uniform()); exact += x[j] }  # exact: below 2^11, multiples of 2^-23
      left = x[0]
      for (j = 1; j < M; ++j) left = fp32(left + x[j])
      e = (tree(0, M) - exact) / (u * exact); if (e < 0) e = -e; if (e > worst_tree) worst_tree = e
      e = (left - exact) / (u * exact); if (e < 0) e = -e; if (e > worst_left) worst_left = e
    }
    at = sprintf("%d,%.1f ", px(h), py(worst_tree)); trees = trees at
    lefts = lefts sprintf("%d,%.1f ", px(h), py(worst_left))
    tree_bound = tree_bound sprintf("%d,%.1f ", px(h), py(h))
    left_bound = left_bound sprintf("%d,%.1f ", px(h), py(M - 1))
    printf "M %5d  tree %.3f of %d  left fold %.3f of %d\n", M, worst_tree, h, worst_left, M - 1 > "/dev/stderr"
  }
  print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 330\" font-family=\"sans-serif\" font-size=\"13\">"
  print "<rect width=\"640\" height=\"330\" fill=\"white\"/>"
  print "<path d=\"M60 10V290H560\" fill=\"none\" stroke=\"black\"/>"
  for (h = 1; h <= 10; ++h) label(px(h), 307, "middle", 2 ^ h)
  for (k = -1; k <= 10; k += 1) if (k % 2 == 0) label(54, py(2 ^ k) + 4, "end", 2 ^ k)
  label(310, 325, "middle", "M, micro-batches"); label(66, 16, "start", "error / (u sum of |x|)")
  line(left_bound, "stroke=\"#c0392b\" stroke-dasharray=\"5 4\""); line(lefts, "stroke=\"#c0392b\"")
  line(tree_bound, "stroke=\"#1f618d\" stroke-dasharray=\"5 4\""); line(trees, "stroke=\"#1f618d\"")
  label(546, py(1023) + 4, "start", "fold, bound"); label(546, py(worst_left) + 4, "start", "left fold")
  label(546, py(10) + 4, "start", "tree, bound"); label(546, py(worst_tree) + 4, "start", "tree")
  print "</svg>"
}' </dev/null
