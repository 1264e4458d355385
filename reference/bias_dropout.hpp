#pragma once

#include "common/contracts/bias_dropout.hpp"

namespace zeroproof::reference {

BiasDropoutFn bias_dropout;
BiasDropoutBackwardFn bias_dropout_backward;

}  // namespace zeroproof::reference
