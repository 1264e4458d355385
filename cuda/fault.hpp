#pragma once
// Planted faults. In ordinary builds ZP_FAULT is the constant false and no trace of a fault is compiled.

#if defined(ZP_WITH_FAULTS)
#define ZP_FAULT(exec, id) ((exec).fault == (id))
#else
#define ZP_FAULT(exec, id) (static_cast<void>(exec), false)
#endif
