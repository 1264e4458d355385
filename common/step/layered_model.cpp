#include "common/step/layered_model.hpp"

#include "common/base/error.hpp"

namespace zeroproof {

void LayeredModel::set_scales(Span<const float>) {
  fail(ErrorCode::unavailable, "this model does not support 8-bit parameters",
       "their values are codes times the scales of blocks (R24)",
       "use parameters of fp32, bf16 or fp16, or a model that overrides set_scales");
}

}  // namespace zeroproof
