// Activations and their gradients: with and without bias, weights, limits and offset, over rows of every width,
// refused.

#include "common/contracts/activations.hpp"

#include <algorithm>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"
#include "verification/ops/row_shapes.hpp"

namespace zeroproof::verification {
namespace {

/// Arguments of a call except its numbers.
struct ActivationVariant {
  const char* name;
  RowShape shape;
  bool bias;
  bool weight;
  float setting;  ///< limit of swiglu, offset of quick_geglu
  bool refused = false;
};

constexpr ActivationVariant activation_variants[] = {
    {"one row", RowShape::one_row, false, false, 0},
    {"one row with bias and weight", RowShape::one_row, true, true, 1.5F},
    {"rows of one", RowShape::one_column, true, true, 0},
    {"rows", RowShape::square, false, false, 7},
    {"rows with bias", RowShape::square, true, false, 0.25F},
    {"rows with weight", RowShape::square, false, true, 0},
    {"refused", RowShape::square, true, true, 1, true}};

/// The views of one call. An operation ignores the views it does not have.
struct ActivationArgs {
  std::int64_t columns;
  float setting;
  Span<const float> dy, x, bias, weight;
  Span<float> result, d_weight;
};

/// The arguments that an operation has.
struct ActivationKind {
  bool gated, bias, weight;
  const char* setting;  ///< its name; nullptr if there is none
  bool backward = false;
};

using ActivationImplementation = std::function<void(const Exec&, const ActivationArgs&)>;

/// Operands of an operation, in the order of args_of().
std::vector<Operand> operands_of(const ActivationKind& kind) {
  const std::int64_t width = kind.gated ? 2 : 1;
  std::vector<Operand> operands;
  if (kind.backward) operands.push_back(input("dy"));
  operands.push_back(per_element(input("x"), width));
  if (kind.bias) operands.push_back(per_element(input("bias"), width));
  if (kind.weight) operands.push_back(input("weight"));
  operands.push_back(per_element(output(kind.backward ? "dx" : "y"), kind.backward ? width : 1));
  if (kind.weight && kind.backward) operands.push_back(output("d_weight"));
  operands.push_back(fixed(output("refused", DType::u32), 1));
  return operands;
}

ActivationArgs args_of(const ActivationKind& kind, const OpCall& call) {
  const ActivationVariant& variant = activation_variants[call.variant()];
  ActivationArgs args{
      columns_of(variant.shape, call.numel()), variant.setting, {}, {}, {}, {}, {}, {}};
  const auto columns = static_cast<std::size_t>(args.columns);
  const std::size_t rows = static_cast<std::size_t>(call.numel()) / columns;
  std::size_t k = 0;
  if (kind.backward) args.dy = call.in<float>(k++);
  args.x = call.in<float>(k++);
  if (kind.bias) {
    const Span<const float> all = call.in<float>(k++);
    if (variant.bias) args.bias = all.first(std::min(all.size(), (kind.gated ? 2 : 1) * columns));
  }
  if (kind.weight) {
    const Span<const float> all = call.in<float>(k++);
    if (variant.weight) args.weight = all.first(rows);
  }
  args.result = call.get<float>(k++);
  if (kind.weight && kind.backward) {
    const Span<float> all = call.get<float>(k);
    args.d_weight = all.first(args.weight.size());
    std::ranges::fill(all.subspan(args.weight.size()),
                      0.0F);  // the number of weights is that of rows
  }
  return args;
}

/// Makes one argument illegal, which an implementation must refuse.
void spoil(ActivationArgs& args, std::uint32_t which) {
  const auto shorter = [](auto& view) { view = view.first(view.size() - 1); };
  switch (which % 8) {
    case 0:
      if (!args.x.empty()) return shorter(args.x);
      break;
    case 1:
      if (!args.bias.empty()) return shorter(args.bias);
      break;
    case 2:
      if (args.weight.size() > 1) return shorter(args.weight);
      break;
    case 3:
      if (!args.result.empty()) return shorter(args.result);
      break;
    case 4:
      if (args.dy.size() > 1) return shorter(args.dy);
      break;
    case 5:
      if (args.d_weight.size() > 1) return shorter(args.d_weight);
      break;
    case 6:
      args.columns = -args.columns;
      return;
    default:
      break;
  }
  args.columns = 0;
}

OpFunction run(const ActivationKind& kind, const ActivationImplementation& implementation) {
  return [kind, implementation](OpCall& call) {
    ActivationArgs args = args_of(kind, call);
    if (activation_variants[call.variant()].refused) spoil(args, call.words(0, 0, 1)[0]);
    const std::size_t last = operands_of(kind).size() - 1;
    call.get<std::uint32_t>(last)[0] = refused([&] { implementation(call.exec, args); });
  };
}

/// A missing implementation is empty.
Op activation(const char* name, const char* type, const ActivationKind& kind,
              const ActivationImplementation& reference, const ActivationImplementation& host = {},
              const ActivationImplementation& device = {}) {
  Op op;
  op.name = name;
  op.contract = "activations.hpp";
  op.type = type;
  for (const ActivationVariant& variant : activation_variants)
    op.variants.emplace_back(variant.name);
  op.operands = operands_of(kind);
  op.fills = number_fills();
  op.largest = largest_rows;
  op.settings = [kind](const OpCall& call) {
    const ActivationArgs args = args_of(kind, call);
    std::vector<OpSetting> settings = {{"columns", args.columns}};
    if (kind.setting != nullptr) settings.push_back({kind.setting, double{args.setting}});
    if (kind.bias)
      settings.push_back(
          {"has_bias", std::int64_t{activation_variants[call.variant()].bias ? 1 : 0}});
    if (kind.weight)
      settings.push_back(
          {"has_weight", std::int64_t{activation_variants[call.variant()].weight ? 1 : 0}});
    return settings;
  };
  op.reference = run(kind, reference);
  if (host) op.host = run(kind, host);
  if (device) op.device = run(kind, device);
  return op;
}

// Each kind of signature once: an implementation in any layer has one of these.

ActivationImplementation gelu(BiasGeluFn* implementation) {
  return [implementation](const Exec& exec, const ActivationArgs& a) {
    implementation(exec, a.columns, a.x, a.bias, a.result);
  };
}
ActivationImplementation gelu_backward(BiasGeluBackwardFn* implementation) {
  return [implementation](const Exec& exec, const ActivationArgs& a) {
    implementation(exec, a.columns, a.dy, a.x, a.bias, a.result);
  };
}
ActivationImplementation gated(SwigluFn* implementation) {
  return [implementation](const Exec& exec, const ActivationArgs& a) {
    implementation(exec, a.columns, a.setting, a.x, a.bias, a.weight, a.result);
  };
}
ActivationImplementation gated_backward(SwigluBackwardFn* implementation) {
  return [implementation](const Exec& exec, const ActivationArgs& a) {
    implementation(exec, a.columns, a.setting, a.dy, a.x, a.bias, a.weight, a.result, a.d_weight);
  };
}
ActivationImplementation squared(SquaredReluFn* implementation) {
  return [implementation](const Exec& exec, const ActivationArgs& a) {
    implementation(exec, a.columns, a.x, a.weight, a.result);
  };
}
ActivationImplementation squared_backward(SquaredReluBackwardFn* implementation) {
  return [implementation](const Exec& exec, const ActivationArgs& a) {
    implementation(exec, a.columns, a.dy, a.x, a.weight, a.result, a.d_weight);
  };
}

constexpr ActivationKind gelu_like = {false, true, false, nullptr};
constexpr ActivationKind geglu_like = {true, true, false, nullptr};
constexpr ActivationKind quick_like = {true, true, true, "offset"};
constexpr ActivationKind swiglu_like = {true, true, true, "limit"};
constexpr ActivationKind squared_like = {false, false, true, nullptr};

constexpr ActivationKind backward(ActivationKind kind) {
  kind.backward = true;
  return kind;
}

}  // namespace

OpFunction calls_of_swiglu(SwigluFn* implementation) {
  return run(swiglu_like, gated(implementation));
}
OpFunction calls_of_swiglu_backward(SwigluBackwardFn* implementation) {
  return run(backward(swiglu_like), gated_backward(implementation));
}

std::vector<Op> activation_ops() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  return {
      activation("bias_gelu", "BiasGeluFn", gelu_like, gelu(r::bias_gelu), gelu(h::bias_gelu),
                 gelu(on_device<d::bias_gelu>)),
      activation("bias_gelu_backward", "BiasGeluBackwardFn", backward(gelu_like),
                 gelu_backward(r::bias_gelu_backward), gelu_backward(h::bias_gelu_backward),
                 gelu_backward(on_device<d::bias_gelu_backward>)),
      activation("geglu", "GegluFn", geglu_like, gelu(r::geglu), gelu(h::geglu),
                 gelu(on_device<d::geglu>)),
      activation("geglu_backward", "GegluBackwardFn", backward(geglu_like),
                 gelu_backward(r::geglu_backward), gelu_backward(h::geglu_backward),
                 gelu_backward(on_device<d::geglu_backward>)),
      activation("quick_geglu", "QuickGegluFn", quick_like, gated(r::quick_geglu),
                 gated(h::quick_geglu), gated(on_device<d::quick_geglu>)),
      activation("quick_geglu_backward", "QuickGegluBackwardFn", backward(quick_like),
                 gated_backward(r::quick_geglu_backward), gated_backward(h::quick_geglu_backward),
                 gated_backward(on_device<d::quick_geglu_backward>)),
      activation("swiglu", "SwigluFn", swiglu_like, gated(r::swiglu), gated(h::swiglu),
                 gated(on_device<d::swiglu>)),
      activation("swiglu_backward", "SwigluBackwardFn", backward(swiglu_like),
                 gated_backward(r::swiglu_backward), gated_backward(h::swiglu_backward),
                 gated_backward(on_device<d::swiglu_backward>)),
      activation("squared_relu", "SquaredReluFn", squared_like, squared(r::squared_relu),
                 squared(h::squared_relu), squared(on_device<d::squared_relu>)),
      activation("squared_relu_backward", "SquaredReluBackwardFn", backward(squared_like),
                 squared_backward(r::squared_relu_backward),
                 squared_backward(h::squared_relu_backward),
                 squared_backward(on_device<d::squared_relu_backward>))};
}

}  // namespace zeroproof::verification
