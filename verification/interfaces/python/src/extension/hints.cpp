#include "verification/interfaces/python/src/extension/hints.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/compare/hint.hpp"
#include "verification/interfaces/python/src/extension/bytes.hpp"

namespace zeroproof::python {
namespace {

TensorView view_of(const Bytes& bytes, DType dtype) {
  return {bytes.memory.data, dtype, bytes.memory.numel / num_bytes(dtype)};
}

std::string hint_of(const std::string& dtype, const Bytes& want, const Bytes& got,
                    const std::optional<Bytes>& before,
                    const std::vector<std::pair<std::string, Bytes>>& others,
                    const std::vector<std::pair<std::string, double>>& factors) {
  const std::optional<SafeDType> known = parse_safe_dtype(dtype);
  const std::optional<DType> format = known ? buffer_dtype(*known) : std::nullopt;
  ZP_CHECK(format.has_value(), ErrorCode::invalid_argument,
           "no buffer holds elements of type '" + dtype + "'", "hints have no rule for them",
           "use another type");
  verification::HintEvidence evidence;
  evidence.want = view_of(want, *format);
  evidence.got = view_of(got, *format);
  if (before) evidence.before = view_of(*before, *format);
  for (const auto& [name, bytes] : others)
    evidence.others.push_back({name, view_of(bytes, *format)});
  for (const auto& [name, value] : factors) evidence.factors.push_back({name, value});
  return verification::hint(evidence);
}

}  // namespace

void bind_hints(py::Module& module) {
  module.def<&hint_of>("hint", {"dtype", "want", "got", "before", "others", "factors"});
}

}  // namespace zeroproof::python
