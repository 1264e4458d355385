#pragma once
// The element-wise operations in one form, so that one engine can stream, shift and split all of
// them: input buffers, output buffers, a number that selects scalars and flags, and found_inf as
// the result.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle.h"
#include "oracle_implementations.hpp"
#include "oracle_inputs.hpp"
#include "oracle_scalar_cases.hpp"

namespace zeroproof::oracle {

struct Operands {
  std::array<void*, most_operands> in{};
  std::array<void*, most_operands> out{};
  std::int64_t numel = 0;
  std::uint64_t first = 0;  ///< offset of the first index of the draws, so that a call can be split

  template <class T>
  Span<const T> input(int i) const {
    return {static_cast<const T*>(in[i]), static_cast<std::size_t>(numel)};
  }
  template <class T>
  Span<T> output(int i) const {
    return {static_cast<T*>(out[i]), static_cast<std::size_t>(numel)};
  }
  std::size_t size() const { return static_cast<std::size_t>(numel); }
};

struct Operation {
  std::string name;
  DType in_type;
  int inputs;
  std::vector<DType> out_types;
  int aliases;  ///< out[0] may be any of the first `aliases` inputs
  int sets;     ///< numbers that select scalars and flags
  std::vector<Family> families;
  std::function<bool(const Implementation&)> has;
  std::function<bool(const Implementation&, const Exec&, int set, const Operands&)> run;
  std::function<bool(int set, const Operands&)> judge;  ///< the oracle
  std::function<std::string(int set)> describe;
};

inline std::vector<Family> arithmetic_families() {
  return {Family::any_bits, Family::special, Family::near_subnormal, Family::training};
}

/// State is updated in place, so it is copied to the outputs first: output i starts as input i + 1.
inline void copy_state(const Operands& o, int buffers) {
  for (int i = 0; i < buffers; ++i)
    std::ranges::copy(o.input<float>(i + 1), o.output<float>(i).begin());
}

/// The narrow types as the integers that the oracle takes.
template <class T>
auto* bits_of(Span<T> view) {
  using Bits = decltype(T::bits);
  return reinterpret_cast<Bits*>(view.data());
}
template <class T>
const auto* bits_of(Span<const T> view) {
  using Bits = decltype(T::bits);
  return reinterpret_cast<const Bits*>(view.data());
}

}  // namespace zeroproof::oracle
