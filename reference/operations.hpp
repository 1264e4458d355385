#pragma once
// Declarations of the operations of the reference.

#include "common/contracts/operations.hpp"

namespace zeroproof::reference {

#define ZP_DECLARE(name, Function) Function name;
ZP_OPERATIONS(ZP_DECLARE)
ZP_HOST_OPERATIONS(ZP_DECLARE)
#undef ZP_DECLARE

}  // namespace zeroproof::reference
