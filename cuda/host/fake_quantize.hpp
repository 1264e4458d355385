#pragma once

#include "common/contracts/fake_quantize.hpp"

namespace zeroproof::cuda::host {

FakeQuantizeFn fake_quantize;
QuantizeIntegerFn quantize_integer;

}  // namespace zeroproof::cuda::host
