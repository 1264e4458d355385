#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/kernel_table.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/operations/rounding_shares.hpp"

namespace zeroproof::verification {
namespace {

template <class From, class To>
OpFunction run(void (*implementation)(const Exec&, Span<const From>, Span<To>)) {
  return [implementation](OpCall& call) {
    implementation(call.exec, call.in<From>(0), call.get<To>(1));
  };
}

template <class From, class To>
using CastFn = void(const Exec&, Span<const From>, Span<To>);

/// One cast and its three implementations.
template <class From, class To>
Op cast(std::string name, std::string type, std::vector<Operand> operands,
        CastFn<From, To>* reference, CastFn<From, To>* host, CastFn<From, To>* device) {
  Op op;
  op.name = std::move(name);
  op.contract = "cast.hpp";
  op.type = std::move(type);
  op.phases = {Phase::cast};
  op.operands = std::move(operands);
  op.fills = number_fills();
  op.one_result = "it rounds once, to nearest even";
  op.reference = run(reference);
  op.host = run(host);
  op.device = run(device);
  return op;
}

template <class To>
Op narrowing(std::string name, std::string type, DType dtype, CastFn<float, To>* reference,
             CastFn<float, To>* host, CastFn<float, To>* device) {
  return cast(std::move(name), std::move(type),
              {input("source", Content::weight), output("target", dtype)}, reference, host, device);
}

template <class From>
Op widening(std::string name, std::string type, DType dtype, CastFn<From, float>* reference,
            CastFn<From, float>* host, CastFn<From, float>* device) {
  Op op = cast(std::move(name), std::move(type),
               {input("source", Content::value, dtype), output("target")}, reference, host, device);
  op.phases = {Phase::reduce};
  op.one_result = "it rounds nothing";
  op.fills = {Fill::patterns, Fill::zero};
  op.largest = 65549;  // every pattern of a 16-bit format once
  return op;
}

Op rounded_up() {
  Op op = narrowing<e8m0>("cast_to_e8m0", "CastToE8m0Fn", DType::e8m0, reference::cast_to_e8m0,
                          cuda::host::cast_to_e8m0, on_device<cuda::device::cast_to_e8m0>);
  op.one_result = "it rounds once, up";
  return op;
}

/// Draws by variant: two seeds, steps around 2^32, and first indices in every place of a block of four words.
constexpr RoundingDraw draws[] = {
    {1, 1, 0}, {0xFEDCBA9876543210U, 0x100000007U, 4097}, {3, 0, 0xFFFFFFFFU}};

OpFunction run_stochastic(StochasticCastToBf16Fn* implementation) {
  return [implementation](OpCall& call) {
    implementation(call.exec, draws[call.variant()], call.in<float>(0), call.get<bf16>(1));
  };
}

Op stochastic() {
  Op op;
  op.name = "stochastic_cast_to_bf16";
  op.contract = "cast.hpp";
  op.type = "StochasticCastToBf16Fn";
  op.exactness = Exactness::drawn;
  op.bounds = [](const OpCall& pristine, const OpCall&) {
    return CallBounds::by([source = pristine.in<float>(0)](std::size_t, std::int64_t i) {
      return neighbours_in_bf16(source[static_cast<std::size_t>(i)]);
    });
  };
  op.statistic = rounding_shares;
  op.phases = {Phase::cast};
  op.variants = {"from index 0", "from index 4097", "across index 2^32"};
  op.operands = {input("source", Content::weight), output("target", DType::bf16)};
  op.fills = number_fills();
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    const RoundingDraw& draw = draws[call.variant()];
    return {{"seed", draw.seed}, {"step", draw.step}, {"first_index", draw.first_index}};
  };
  op.reference = run_stochastic(reference::stochastic_cast_to_bf16);
  op.host = run_stochastic(cuda::host::stochastic_cast_to_bf16);
  op.device = run_stochastic(on_device<cuda::device::stochastic_cast_to_bf16>);
  return op;
}

}  // namespace

std::vector<Op> cast_ops() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  Op to_bf16 = narrowing("cast_to_bf16", "CastToBf16Fn", DType::bf16, r::cast_to_bf16,
                         h::cast_to_bf16, on_device<d::cast_to_bf16>);
  to_bf16.host_of = [](const cuda::KernelTable& ops) { return run(ops.cast_to_bf16); };
  Op to_fp16 = narrowing("cast_to_fp16", "CastToFp16Fn", DType::fp16, r::cast_to_fp16,
                         h::cast_to_fp16, on_device<d::cast_to_fp16>);
  to_fp16.host_of = [](const cuda::KernelTable& ops) { return run(ops.cast_to_fp16); };
  return {
      to_bf16,
      to_fp16,
      narrowing("cast_to_e4m3", "CastToE4m3Fn", DType::e4m3, r::cast_to_e4m3, h::cast_to_e4m3,
                on_device<d::cast_to_e4m3>),
      narrowing("cast_to_e5m2", "CastToE5m2Fn", DType::e5m2, r::cast_to_e5m2, h::cast_to_e5m2,
                on_device<d::cast_to_e5m2>),
      narrowing<e4m3>("nonfinite_cast_to_e4m3", "NonfiniteCastToE4m3Fn", DType::e4m3,
                      r::nonfinite_cast_to_e4m3, h::nonfinite_cast_to_e4m3,
                      on_device<d::nonfinite_cast_to_e4m3>),
      narrowing<e5m2>("nonfinite_cast_to_e5m2", "NonfiniteCastToE5m2Fn", DType::e5m2,
                      r::nonfinite_cast_to_e5m2, h::nonfinite_cast_to_e5m2,
                      on_device<d::nonfinite_cast_to_e5m2>),
      rounded_up(),
      stochastic(),
      widening("widen_bf16", "WidenBf16Fn", DType::bf16, r::widen_bf16, h::widen_bf16,
               on_device<d::widen_bf16>),
      widening("widen_fp16", "WidenFp16Fn", DType::fp16, r::widen_fp16, h::widen_fp16,
               on_device<d::widen_fp16>),
      widening("widen_e4m3", "WidenE4m3Fn", DType::e4m3, r::widen_e4m3, h::widen_e4m3,
               on_device<d::widen_e4m3>),
      widening("widen_e5m2", "WidenE5m2Fn", DType::e5m2, r::widen_e5m2, h::widen_e5m2,
               on_device<d::widen_e5m2>),
      widening<e8m0>("widen_e8m0", "WidenE8m0Fn", DType::e8m0, r::widen_e8m0, h::widen_e8m0,
                     on_device<d::widen_e8m0>),
  };
}

}  // namespace zeroproof::verification
