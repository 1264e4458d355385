// Dropout with a residual, sums over rows, and gradients of weights that are accumulated.

#include <array>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"
#include "verification/ops/row_shapes.hpp"

namespace zeroproof::verification {
namespace {

struct DropoutVariant {
  const char* name;
  RowShape shape;
  bool bias;
  double probability;
  DropoutDraw draw;
};
constexpr DropoutVariant dropouts[] = {
    {"rows with bias", RowShape::square, true, 0.1, {11, 5, 0}},
    {"one row", RowShape::one_row, false, 0.5, {12, 7, 4097}},
    {"rows of one, nothing dropped", RowShape::one_column, true, 0, {13, 1, 3}},
    {"nearly all dropped, across index 2^32",
     RowShape::square,
     true,
     0.75,
     {14, 1ULL << 33, 0xFFFFFFF1}}};

OpFunction run_dropout(BiasDropoutFn* implementation) {
  return [implementation](OpCall& call) {
    const DropoutVariant& v = dropouts[call.variant()];
    const std::int64_t columns = columns_of(v.shape, call.numel());
    const bool bias = v.bias && call.numel() > 0;
    implementation(call.exec, v.draw, columns, v.probability, call.in<float>(0),
                   used(call.in<float>(1), bias ? columns : 0), call.in<float>(2),
                   call.get<float>(3));
  };
}

OpFunction run_dropout_backward(BiasDropoutBackwardFn* implementation) {
  return [implementation](OpCall& call) {
    const DropoutVariant& v = dropouts[call.variant()];
    implementation(call.exec, v.draw, v.probability, call.in<float>(0), call.get<float>(1));
  };
}

Op dropout_op(const char* name, const char* type, std::vector<Operand> operands,
              OpFunction reference, OpFunction host, OpFunction device) {
  Op op;
  op.name = name;
  op.contract = "bias_dropout.hpp";
  op.type = type;
  op.exactness = Exactness::drawn;
  for (const DropoutVariant& variant : dropouts) op.variants.emplace_back(variant.name);
  op.operands = std::move(operands);
  op.fills = number_fills();
  op.largest = largest_rows;
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    const DropoutVariant& v = dropouts[call.variant()];
    return {{"columns", columns_of(v.shape, call.numel())},
            {"has_bias", std::int64_t{v.bias ? 1 : 0}},
            {"probability", v.probability},
            {"seed", v.draw.seed},
            {"step", v.draw.step},
            {"first_index", v.draw.first_index}};
  };
  op.reference = std::move(reference);
  op.host = std::move(host);
  op.device = std::move(device);
  return op;
}

constexpr RowShape column_shapes[] = {RowShape::one_row, RowShape::one_column, RowShape::square};

OpFunction run_columns(ColumnSumFn* implementation) {
  return [implementation](OpCall& call) {
    const std::int64_t columns = columns_of(column_shapes[call.variant()], call.numel());
    if (call.numel() == 0) return;
    implementation(call.exec, call.in<float>(0), used(call.get<float>(1), columns));
  };
}

/// Tokens, outputs and inputs of a call whose three matrices have at most as many elements as the
/// call.
struct WeightShape {
  std::int64_t tokens, outputs, inputs;
};

WeightShape weight_shape(const OpCall& call) {
  const std::int64_t n = call.numel();
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= n) ++side;
  switch (call.variant()) {
    case 0:
      return {side, side, side};
    case 1:
      return {n, 1, 1};
    case 2:
      return {1, 1, n};
    default:
      return {0, std::min<std::int64_t>(n, 3), n / 3};
  }
}

template <class T, class Implementation>
OpFunction run_weights(Implementation* implementation) {
  return [implementation](OpCall& call) {
    if (call.numel() < 3) return;
    const WeightShape s = weight_shape(call);
    implementation(
        call.exec, s.tokens, s.outputs, s.inputs, used(call.in<T>(0), s.tokens * s.outputs),
        used(call.in<T>(1), s.tokens * s.inputs), call.get<float>(2).first(s.outputs * s.inputs));
  };
}

Op weights_op(const char* name, const char* type, DType dtype) {
  Op op;
  op.name = name;
  op.contract = "weight_grad.hpp";
  op.type = type;
  op.exactness = Exactness::ordered;
  op.variants = {"square", "one weight", "one token", "no tokens"};
  op.operands = {input("dy", Content::value, dtype), input("x", Content::value, dtype),
                 in_place("weight_grad", Content::value)};
  op.fills = number_fills();
  op.largest = 4099;
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    const WeightShape s = weight_shape(call);
    return {{"tokens", s.tokens}, {"outputs", s.outputs}, {"inputs", s.inputs}};
  };
  return op;
}

}  // namespace

OpFunction calls_of_bias_dropout(BiasDropoutFn* implementation) {
  return run_dropout(implementation);
}
OpFunction calls_of_weight_grad(WeightGradFn* implementation) {
  return run_weights<float>(implementation);
}

std::vector<Op> dropout_and_weight_ops() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  Op columns;
  columns.name = "column_sum";
  columns.contract = "weight_grad.hpp";
  columns.type = "ColumnSumFn";
  columns.exactness = Exactness::ordered;
  columns.variants = {"one row", "one column", "rows"};
  columns.operands = {input("x"), output("sums")};
  columns.fills = number_fills();
  columns.largest = largest_rows;
  columns.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    return {{"columns", columns_of(column_shapes[call.variant()], call.numel())}};
  };
  columns.reference = run_columns(r::column_sum);
  columns.host = run_columns(h::column_sum);
  columns.device = run_columns(on_device<d::column_sum>);

  Op weights = weights_op("weight_grad", "WeightGradFn", DType::fp32);
  weights.reference = run_weights<float>(r::weight_grad);
  weights.host = run_weights<float>(h::weight_grad);
  weights.device = run_weights<float>(on_device<d::weight_grad>);
  Op narrow = weights_op("weight_grad_bf16", "WeightGradBf16Fn", DType::bf16);
  narrow.reference = run_weights<bf16>(r::weight_grad_bf16);
  narrow.host = run_weights<bf16>(h::weight_grad_bf16);
  narrow.device = run_weights<bf16>(on_device<d::weight_grad_bf16>);
  return {dropout_op("bias_dropout", "BiasDropoutFn",
                     {input("x"), input("bias"), input("residual"), output("y")},
                     run_dropout(r::bias_dropout), run_dropout(h::bias_dropout),
                     run_dropout(on_device<d::bias_dropout>)),
          dropout_op("bias_dropout_backward", "BiasDropoutBackwardFn", {input("dy"), output("dx")},
                     run_dropout_backward(r::bias_dropout_backward),
                     run_dropout_backward(h::bias_dropout_backward),
                     run_dropout_backward(on_device<d::bias_dropout_backward>)),
          columns, weights, narrow};
}

}  // namespace zeroproof::verification
