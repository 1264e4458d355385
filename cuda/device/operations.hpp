#pragma once
// Declarations of the device operations. Spans are device memory; returned values are on the host.

#include "common/contracts/operations.hpp"

namespace zeroproof::cuda::device {

#define ZP_DECLARE(name, Function) Function name;
ZP_OPERATIONS(ZP_DECLARE)
#undef ZP_DECLARE

}  // namespace zeroproof::cuda::device
