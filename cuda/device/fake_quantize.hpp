#pragma once

#include "common/contracts/fake_quantize.hpp"

namespace zeroproof::cuda::device {

FakeQuantizeFn fake_quantize;
QuantizeIntegerFn quantize_integer;

}  // namespace zeroproof::cuda::device
