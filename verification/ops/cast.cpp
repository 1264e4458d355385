#include "cuda/device/cast.hpp"
#include "cuda/host/cast.hpp"
#include "reference/cast.hpp"
#include "verification/ops/families.hpp"

namespace zeroproof::verification {
namespace {

template <class From, class To>
OpFunction run(void (*twin)(const Exec&, Span<const From>, Span<To>)) {
  return [twin](OpCall& call) { twin(call.exec, call.in<From>(0), call.get<To>(1)); };
}

Op narrowing(std::string name, std::string type, DType dtype, OpFunction reference, OpFunction host,
             OpFunction device) {
  Op op;
  op.name = std::move(name);
  op.contract = "cast.hpp";
  op.type = std::move(type);
  op.phases = {Phase::cast};
  op.operands = {input("source", Content::weight), output("target", dtype)};
  op.fills = number_fills();
  op.reference = std::move(reference);
  op.host = std::move(host);
  op.device = std::move(device);
  return op;
}

Op widening(std::string name, std::string type, DType dtype, OpFunction reference, OpFunction host,
            OpFunction device) {
  Op op = narrowing(std::move(name), std::move(type), dtype, std::move(reference), std::move(host),
                    std::move(device));
  op.phases = {Phase::reduce};
  op.operands = {input("source", Content::value, dtype), output("target")};
  op.fills = {Fill::patterns, Fill::zero};
  op.largest = 65549;  // every pattern of a 16-bit format once
  return op;
}

}  // namespace

std::vector<Op> cast_ops() {
  namespace r = reference;
  namespace h = cuda::host;
  namespace d = cuda::device;
  return {
      narrowing("cast_to_bf16", "CastToBf16Fn", DType::bf16, run(r::cast_to_bf16), run(h::cast_to_bf16),
                run(d::cast_to_bf16)),
      narrowing("cast_to_fp16", "CastToFp16Fn", DType::fp16, run(r::cast_to_fp16), run(h::cast_to_fp16),
                run(d::cast_to_fp16)),
      widening("widen_bf16", "WidenBf16Fn", DType::bf16, run(r::widen_bf16), run(h::widen_bf16),
               run(d::widen_bf16)),
      widening("widen_fp16", "WidenFp16Fn", DType::fp16, run(r::widen_fp16), run(h::widen_fp16),
               run(d::widen_fp16)),
  };
}

}  // namespace zeroproof::verification
