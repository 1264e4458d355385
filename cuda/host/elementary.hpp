#pragma once

#include "common/contracts/elementary.hpp"

namespace zeroproof::cuda::host {

ElementaryExpFn elementary_exp;
ElementaryTanhFn elementary_tanh;
ElementarySigmoidFn elementary_sigmoid;
ElementaryErfFn elementary_erf;
ElementaryLogFn elementary_log;

}  // namespace zeroproof::cuda::host
