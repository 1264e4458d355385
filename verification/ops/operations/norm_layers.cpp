// RMS norm and layer norm, and their gradients, over rows of several widths.

#include "common/contracts/norm_layers.hpp"

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"
#include "verification/ops/row_shapes.hpp"

namespace zeroproof::verification {
namespace {

struct NormRows {
  const char* name;
  RowShape shape;
  float eps;
};
constexpr NormRows norm_rows[] = {{"one row", RowShape::one_row, 1e-5F},
                                  {"rows of one", RowShape::one_column, 0},
                                  {"rows", RowShape::square, 1e-6F}};

/// Width and number of the rows of a call.
struct NormCall {
  std::int64_t n, rows;
  float eps;

  explicit NormCall(const OpCall& call)
      : n(columns_of(norm_rows[call.variant()].shape, call.numel())),
        rows(call.numel() / n),
        eps(norm_rows[call.variant()].eps) {}

  /// A vector over the columns. A call without elements has none: tests of the implementations make calls without rows.
  Span<const float> gain(const OpCall& call, std::size_t operand) const {
    return used(call.in<float>(operand), n);
  }
};

OpFunction run_rms(RmsNormFn* implementation) {
  return [implementation](OpCall& call) {
    const NormCall c(call);
    if (c.rows == 0) return;
    implementation(call.exec, c.n, c.eps, call.in<float>(0), c.gain(call, 1), call.get<float>(2),
                   used(call.get<float>(3), c.rows));
  };
}

OpFunction run_rms_backward(RmsNormBackwardFn* implementation) {
  return [implementation](OpCall& call) {
    const NormCall c(call);
    if (c.rows == 0) return;
    implementation(call.exec, c.n, call.in<float>(0), call.in<float>(1), c.gain(call, 2),
                   used(call.in<float>(3), c.rows), call.get<float>(4),
                   used(call.get<float>(5), c.n));
  };
}

OpFunction run_layer(LayerNormFn* implementation) {
  return [implementation](OpCall& call) {
    const NormCall c(call);
    if (c.rows == 0) return;
    implementation(call.exec, c.n, c.eps, call.in<float>(0), c.gain(call, 1), c.gain(call, 2),
                   call.get<float>(3), used(call.get<float>(4), c.rows),
                   used(call.get<float>(5), c.rows));
  };
}

OpFunction run_layer_backward(LayerNormBackwardFn* implementation) {
  return [implementation](OpCall& call) {
    const NormCall c(call);
    if (c.rows == 0) return;
    implementation(call.exec, c.n, call.in<float>(0), call.in<float>(1), c.gain(call, 2),
                   used(call.in<float>(3), c.rows), used(call.in<float>(4), c.rows),
                   call.get<float>(5), used(call.get<float>(6), c.n),
                   used(call.get<float>(7), c.n));
  };
}

Op norm_op(const char* name, const char* type, std::vector<Operand> operands, OpFunction reference,
           OpFunction host, OpFunction device) {
  Op op;
  op.name = name;
  op.contract = "norm_layers.hpp";
  op.type = type;
  op.exactness = Exactness::ordered;
  for (const NormRows& rows : norm_rows) op.variants.emplace_back(rows.name);
  op.operands = std::move(operands);
  op.fills = number_fills();
  op.largest = largest_rows;
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    const NormCall c(call);
    return {{"n", c.n}, {"eps", double{c.eps}}};
  };
  op.reference = std::move(reference);
  op.host = std::move(host);
  op.device = std::move(device);
  return op;
}

}  // namespace

OpFunction calls_of_rms_norm(RmsNormFn* implementation) { return run_rms(implementation); }

std::vector<Op> norm_layer_ops() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  const Operand gain = input("gain"), deviation = input("deviation", Content::second_moment);
  return {
      norm_op("rms_norm", "RmsNormFn", {input("x"), gain, output("y"), output("deviation")},
              run_rms(r::rms_norm), run_rms(h::rms_norm), run_rms(on_device<d::rms_norm>)),
      norm_op("rms_norm_backward", "RmsNormBackwardFn",
              {input("dy"), input("x"), gain, deviation, output("dx"), output("d_gain")},
              run_rms_backward(r::rms_norm_backward), run_rms_backward(h::rms_norm_backward),
              run_rms_backward(on_device<d::rms_norm_backward>)),
      norm_op("layer_norm", "LayerNormFn",
              {input("x"), gain, input("bias"), output("y"), output("mean"), output("deviation")},
              run_layer(r::layer_norm), run_layer(h::layer_norm),
              run_layer(on_device<d::layer_norm>)),
      norm_op("layer_norm_backward", "LayerNormBackwardFn",
              {input("dy"), input("x"), gain, input("mean"), deviation, output("dx"),
               output("d_gain"), output("d_bias")},
              run_layer_backward(r::layer_norm_backward),
              run_layer_backward(h::layer_norm_backward),
              run_layer_backward(on_device<d::layer_norm_backward>))};
}

}  // namespace zeroproof::verification
