#pragma once
// Declarations of the operations on the host.

#include "common/contracts/operations.hpp"

namespace zeroproof::cuda::host {

#define ZP_DECLARE(name, Function) Function name;
ZP_OPERATIONS(ZP_DECLARE)
ZP_HOST_OPERATIONS(ZP_DECLARE)
#undef ZP_DECLARE

}  // namespace zeroproof::cuda::host
