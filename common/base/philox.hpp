#pragma once
// Philox4x32-10, a counter-based generator: element i of a stream has the same value at any world size (R15).
// Source: [Philox:round], [Philox:address].

#include <array>
#include <cstdint>

namespace zeroproof {

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Ten rounds of Philox4x32 for one counter and key.
PhiloxBlock philox4x32(const PhiloxBlock& counter, std::uint64_t key);

/// Random words addressed by (seed, stream, t, index). Word i of a block of four belongs to index 4*block +
/// i.
class Philox {
 public:
  explicit Philox(std::uint64_t seed, std::uint32_t stream = 0, std::uint32_t t = 0)
      : seed_(seed), stream_(stream), t_(t) {}

  std::uint32_t word(std::uint64_t index) const;

  /// Uniform in [0, 1), a multiple of 2^-24.
  float uniform(std::uint64_t index) const {
    return static_cast<float>(word(index) >> 8) * 0x1p-24F;
  }

  /// Uniform in [0, bound), bound >= 1; the bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;

  /// Sum of four uniforms, shifted and scaled to mean 0 and variance 1: bell-shaped enough for weights, and
  /// the same on every machine (fp32 additions in one order, no libm).
  float bell(std::uint64_t index) const;

 private:
  std::uint64_t seed_;
  std::uint32_t stream_;
  std::uint32_t t_;
};

}  // namespace zeroproof
