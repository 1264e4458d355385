# Bytes that the vector loops of a kernel move for each element, from its PTX, against the minimum, which is to read and
# write each operand once. Kernels are identified by their mangled names. Prints a line for each kernel with another
# number; status 1 then, and without any known kernel.
#   TreeFold<type, n>              n leaves or nodes, as stored (fp32 or 16-bit), and 4 of the sum
#   FusedUpdate<form, ParamCast>   G; master and every buffer of the rule, read and written; the parameter, if any
function number_after(word, rest) {
  if (!match(name, word "[0-9]+")) return -1
  rest = substr(name, RSTART, RLENGTH)
  sub(".*[EiI]", "", rest)
  return rest + 0
}

function finish(type, n, form, states, kind, floor_bytes, elements) {
  if (name == "") return
  type = number_after("LoadTypeE"); n = number_after("LoadTypeE[0-9]ELi")
  form = number_after("RuleFormE"); kind = number_after("ParamKindE")
  if (name ~ /TreeFold/ && n > 0) {
    floor_bytes = n * (type == 0 ? 4 : 2) + 4
    elements = 4 * stores  # each four sums are one store
  } else if (name ~ /FusedUpdate/ && form >= 0) {
    states = form == 4 ? 0 : form == 9 ? 2 : form >= 5 ? 1 : form % 2 == 1 ? 3 : 2  # plain SGD, LAMB, one momentum, amsgrad, two moments
    floor_bytes = 4 * (3 + 2 * states) + (kind == 4 ? 0 : kind == 0 ? 4 : 2)
    elements = 4 * stores / ((kind == 4 ? 1 : 2) + states)
  } else {
    return
  }
  ++known
  if (elements == 0 || bytes != floor_bytes * elements) {
    printf "%s: %s bytes for %s elements, not %s each\n", name, bytes, elements, floor_bytes
    wrong = 1
  }
}

/\.entry/ {
  finish()
  name = $0
  sub(/.*\.entry /, "", name)
  bytes = stores = 0
}
/(ld|st)\.global\.([a-z]+\.)*v[248]\./ {
  match($0, /v[248]\.[a-z][0-9]+/)
  split(substr($0, RSTART + 1, RLENGTH - 1), part, /\.[a-z]/)
  bytes += part[1] * part[2] / 8
  stores += /st\.global/
}
END {
  finish()
  if (known == 0) print "no kernel with a known floor"
  else if (!wrong) printf "%d kernels on the floor\n", known
  exit wrong || known == 0
}
