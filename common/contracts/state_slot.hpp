#pragma once
// The buffers that an update rule may keep besides the master (R6), and tables by buffer.

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace zeroproof {

/// In the order of R6. Names: name() of the buffer (step/state_buffers.hpp).
enum class StateSlot : std::uint8_t {
  exp_avg,         ///< moving average of the gradient; of a matrix under the rule muon its momentum
  exp_avg_sq,      ///< moving average of its square
  max_exp_avg_sq,  ///< with amsgrad
  momentum_buffer  ///< sgd with momentum; starts as the gradient of the first step (is_first)
};

inline constexpr std::array<StateSlot, 4> all_state_slots = {
    StateSlot::exp_avg, StateSlot::exp_avg_sq, StateSlot::max_exp_avg_sq,
    StateSlot::momentum_buffer};

/// One value for each slot. As an array, it leaves numbers without an initializer uninitialized.
template <class T>
struct PerSlot {
  T values[all_state_slots.size()];

  constexpr T& operator[](StateSlot slot) { return values[static_cast<std::size_t>(slot)]; }
  constexpr const T& operator[](StateSlot slot) const {
    return values[static_cast<std::size_t>(slot)];
  }
  constexpr T* begin() { return values; }
  constexpr T* end() { return values + all_state_slots.size(); }
  constexpr const T* begin() const { return values; }
  constexpr const T* end() const { return values + all_state_slots.size(); }
};

/// of(slot) for each slot.
template <class F>
constexpr auto per_slot(const F& of) {
  PerSlot<std::decay_t<decltype(of(StateSlot{}))>> all{};
  for (const StateSlot slot : all_state_slots) all[slot] = of(slot);
  return all;
}

}  // namespace zeroproof
