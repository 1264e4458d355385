#pragma once

#include "common/contracts/fake_quantize.hpp"

namespace zeroproof::reference {

FakeQuantizeFn fake_quantize;
QuantizeIntegerFn quantize_integer;

}  // namespace zeroproof::reference
