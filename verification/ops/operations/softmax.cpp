// Softmax under masks and with a sink, and its gradients, over rows of several widths.

#include "common/contracts/softmax.hpp"

#include <cmath>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"
#include "verification/ops/row_shapes.hpp"

namespace zeroproof::verification {
namespace {

constexpr float scales[] = {1, 0.125F, -2};

Op row_op(const char* name, const char* type, std::vector<Operand> operands) {
  Op op;
  op.name = name;
  op.contract = "softmax.hpp";
  op.type = type;
  op.exactness = Exactness::ordered;
  op.operands = std::move(operands);
  op.fills = number_fills();
  op.largest = largest_rows;
  return op;
}

// Square matrices: one as large as the call permits, many of 3 by 3, or of 16 by 16; the last are
// refused.

struct Squares {
  const char* name;
  std::int64_t n;  ///< 0: as large as it can be
  float scale;
};
constexpr Squares square_variants[] = {
    {"one matrix", 0, 1}, {"3 by 3", 3, 0.125F}, {"16 by 16", 16, -2}, {"refused", -1, 1}};

std::int64_t side_of(const OpCall& call) {
  const std::int64_t n = square_variants[call.variant()].n;
  if (n != 0) return n;
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= std::min<std::int64_t>(call.numel(), 4096)) ++side;
  return side;
}

std::int64_t squares_numel(const OpCall& call) {
  const std::int64_t square = side_of(call) * side_of(call);
  return square_variants[call.variant()].n == 0 ? std::min(square, call.numel() / square * square)
                                                : call.numel() / square * square;
}

void add_squares(Op& op) {
  for (const Squares& one : square_variants) op.variants.emplace_back(one.name);
}

OpFunction run_causal(CausalSoftmaxFn* implementation) {
  return [implementation](OpCall& call) {
    const std::int64_t numel = squares_numel(call);
    const Span<float> y = used(call.get<float>(1), numel);
    call.get<std::uint32_t>(2)[0] = refused([&] {
      implementation(call.exec, side_of(call), square_variants[call.variant()].scale,
                     used(call.in<float>(0), numel), y);
    });
  };
}

OpFunction run_causal_backward(CausalSoftmaxBackwardFn* implementation) {
  return [implementation](OpCall& call) {
    const std::int64_t numel = squares_numel(call);
    const Span<float> dx = used(call.get<float>(2), numel);
    call.get<std::uint32_t>(3)[0] = refused([&] {
      implementation(call.exec, side_of(call), square_variants[call.variant()].scale,
                     used(call.in<float>(0), numel), used(call.in<float>(1), numel), dx);
    });
  };
}

// Rows of a call; every fifth is masked as a whole, a third of the others, or all of one.

constexpr RowShape row_shapes[] = {RowShape::one_row, RowShape::one_column, RowShape::square};

std::vector<std::string> row_names() { return {"one row", "rows of one", "rows"}; }

std::vector<std::uint8_t> mask_of(const OpCall& call, std::size_t operand, std::int64_t n) {
  const Span<const std::uint32_t> words = call.in<std::uint32_t>(operand);
  std::vector<std::uint8_t> mask;
  for (std::int64_t i = 0; i < numel(words); ++i) {
    const std::uint32_t word = words[i] >> 8;
    const bool masked = (n > 1 && i / n % 5 == 4) || word % 3 == 1;
    mask.push_back(static_cast<std::uint8_t>(masked ? 1 + word % 255 : 0));
  }
  return mask;
}

OpFunction run_masked(MaskedSoftmaxFn* implementation) {
  return [implementation](OpCall& call) {
    const std::int64_t n = columns_of(row_shapes[call.variant()], call.numel());
    const std::vector<std::uint8_t> mask = mask_of(call, 1, n);
    implementation(call.exec, n, scales[call.variant()], call.in<float>(0), mask,
                   call.get<float>(2));
  };
}

OpFunction run_masked_backward(MaskedSoftmaxBackwardFn* implementation) {
  return [implementation](OpCall& call) {
    const std::int64_t n = columns_of(row_shapes[call.variant()], call.numel());
    const std::vector<std::uint8_t> mask = mask_of(call, 2, n);
    implementation(call.exec, n, scales[call.variant()], call.in<float>(0), call.in<float>(1), mask,
                   call.get<float>(3));
  };
}

// Heads and positions of a call with sinks; the elements of an incomplete batch are ignored.

struct Heads {
  const char* name;
  std::int64_t heads, positions, n;
};
constexpr Heads head_variants[] = {
    {"one head", 1, 1, 5}, {"heads", 3, 2, 4}, {"wide rows", 2, 1, 33}};

struct SinkCall {
  const Heads& shape;
  std::int64_t rows, numel;

  explicit SinkCall(const OpCall& call) : shape(head_variants[call.variant()]) {
    const std::int64_t batch = shape.heads * shape.positions * shape.n;
    numel = call.numel() / batch * batch;
    rows = numel / shape.n;
  }
};

OpFunction run_sink(SinkSoftmaxFn* implementation) {
  return [implementation](OpCall& call) {
    const SinkCall sizes(call);
    implementation(call.exec, sizes.shape.positions, sizes.shape.n, scales[call.variant()],
                   used(call.in<float>(0), sizes.numel), used(call.in<float>(1), sizes.shape.heads),
                   used(call.get<float>(2), sizes.numel), used(call.get<float>(3), sizes.rows));
  };
}

OpFunction run_sink_backward(SinkSoftmaxBackwardFn* implementation) {
  return [implementation](OpCall& call) {
    const SinkCall sizes(call);
    implementation(call.exec, sizes.shape.positions, sizes.shape.n, scales[call.variant()],
                   used(call.in<float>(0), sizes.numel), used(call.in<float>(1), sizes.numel),
                   used(call.in<float>(2), sizes.rows), used(call.get<float>(3), sizes.numel),
                   used(call.get<float>(4), sizes.shape.heads));
  };
}

}  // namespace

OpFunction calls_of_causal_softmax(CausalSoftmaxFn* implementation) {
  return run_causal(implementation);
}
OpFunction calls_of_masked_softmax(MaskedSoftmaxFn* implementation) {
  return run_masked(implementation);
}
OpFunction calls_of_sink_softmax_backward(SinkSoftmaxBackwardFn* implementation) {
  return run_sink_backward(implementation);
}

std::vector<Op> softmax_ops() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  const Operand mask = input("mask", Content::value, DType::u32);
  const Operand was_refused = fixed(output("refused", DType::u32), 1);
  constexpr std::int64_t most_heads = 3;

  Op causal = row_op("causal_softmax", "CausalSoftmaxFn", {input("x"), output("y"), was_refused});
  add_squares(causal);
  causal.reference = run_causal(r::causal_softmax);
  causal.host = run_causal(h::causal_softmax);
  causal.device = run_causal(on_device<d::causal_softmax>);
  Op causal_backward = row_op("causal_softmax_backward", "CausalSoftmaxBackwardFn",
                              {input("dy"), input("y"), output("dx"), was_refused});
  add_squares(causal_backward);
  causal_backward.reference = run_causal_backward(r::causal_softmax_backward);
  causal_backward.host = run_causal_backward(h::causal_softmax_backward);
  causal_backward.device = run_causal_backward(on_device<d::causal_softmax_backward>);

  Op masked = row_op("masked_softmax", "MaskedSoftmaxFn", {input("x"), mask, output("y")});
  masked.variants = row_names();
  masked.reference = run_masked(r::masked_softmax);
  masked.host = run_masked(h::masked_softmax);
  masked.device = run_masked(on_device<d::masked_softmax>);
  Op masked_backward = row_op("masked_softmax_backward", "MaskedSoftmaxBackwardFn",
                              {input("dy"), input("y"), mask, output("dx")});
  masked_backward.variants = row_names();
  masked_backward.reference = run_masked_backward(r::masked_softmax_backward);
  masked_backward.host = run_masked_backward(h::masked_softmax_backward);
  masked_backward.device = run_masked_backward(on_device<d::masked_softmax_backward>);

  Op sink =
      row_op("sink_softmax", "SinkSoftmaxFn",
             {input("x"), fixed(input("sink"), most_heads), output("y"), output("sink_share")});
  for (const Heads& one : head_variants) sink.variants.emplace_back(one.name);
  sink.reference = run_sink(r::sink_softmax);
  sink.host = run_sink(h::sink_softmax);
  sink.device = run_sink(on_device<d::sink_softmax>);
  Op sink_backward = row_op("sink_softmax_backward", "SinkSoftmaxBackwardFn",
                            {input("dy"), input("y"), input("sink_share"), output("dx"),
                             fixed(output("d_sink"), most_heads)});
  sink_backward.variants = sink.variants;
  sink_backward.reference = run_sink_backward(r::sink_softmax_backward);
  sink_backward.host = run_sink_backward(h::sink_softmax_backward);
  sink_backward.device = run_sink_backward(on_device<d::sink_softmax_backward>);
  return {causal, causal_backward, masked, masked_backward, sink, sink_backward};
}

}  // namespace zeroproof::verification
