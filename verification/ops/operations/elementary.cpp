// exp, tanh, sigmoid, erf and log. tests/verification/ops and tests/verification/mpfr run them on
// every fp32 value.

#include "common/contracts/elementary.hpp"

#include <algorithm>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

/// All five have one shape.
using Elementary = ElementaryExpFn;

OpFunction run(Elementary* implementation) {
  return [implementation](OpCall& call) {
    const Span<float> y = call.get<float>(1);
    Span<const float> x = call.in<float>(0);
    if (call.variant() == 1) {
      std::copy_n(x.data(), y.size(), y.data());
      x = y;
    }
    implementation(call.exec, x, y);
  };
}

/// content: second_moment for arguments of which few are negative. nullptr for an implementation
/// that does not exist.
Op elementary(const char* name, const char* type, Content content, Elementary* reference,
              Elementary* host = nullptr, Elementary* device = nullptr) {
  Op op;
  op.name = name;
  op.contract = "elementary.hpp";
  op.type = type;
  op.variants = {"plain", "in place"};
  op.operands = {input("x", content), output("y")};
  op.fills = number_fills();
  op.fills.push_back(Fill::patterns);
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    return {{"in_place", std::int64_t{call.variant() == 1 ? 1 : 0}}};
  };
  op.reference = run(reference);
  if (host != nullptr) op.host = run(host);
  if (device != nullptr) op.device = run(device);
  return op;
}

}  // namespace

std::vector<Op> elementary_ops() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  return {
      elementary("elementary_exp", "ElementaryExpFn", Content::value, r::elementary_exp,
                 h::elementary_exp, on_device<d::elementary_exp>),
      elementary("elementary_tanh", "ElementaryTanhFn", Content::value, r::elementary_tanh,
                 h::elementary_tanh, on_device<d::elementary_tanh>),
      elementary("elementary_sigmoid", "ElementarySigmoidFn", Content::value, r::elementary_sigmoid,
                 h::elementary_sigmoid, on_device<d::elementary_sigmoid>),
      elementary("elementary_erf", "ElementaryErfFn", Content::value, r::elementary_erf,
                 h::elementary_erf, on_device<d::elementary_erf>),
      elementary("elementary_log", "ElementaryLogFn", Content::second_moment, r::elementary_log,
                 h::elementary_log, on_device<d::elementary_log>)};
}

}  // namespace zeroproof::verification
