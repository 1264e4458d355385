#pragma once
// Planted faults. In ordinary builds both macros are constants and no trace of a fault is compiled.

#if defined(ZP_WITH_FAULTS)
/// Whether the fault with this id is planted.
#define ZP_FAULT(exec, id) ((exec).fault == (id))
/// What the saboteur of an optimizer says or does (saboteur.hpp).
#define ZP_SABOTAGE(call) (saboteur_->call)
#else
#define ZP_FAULT(exec, id) (static_cast<void>(exec), false)
#define ZP_SABOTAGE(call) false
#endif
