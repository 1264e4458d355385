#pragma once
// XXH3-128 over values, not over memory: NaN is canonical, so legal builds agree (R9). Not tamper-proof.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/span.hpp"

namespace zeroproof {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const Digest&) const = default;
  auto operator<=>(const Digest&) const = default;
};

/// 32 lower-case hexadecimal digits.
std::string to_hex(const Digest& digest);

/// Feeds values one after another, little endian; every NaN counts as the canonical NaN of its format.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void add(const TensorView& view);
  void add(std::string_view text);  ///< length first, then the bytes
  void add(std::uint64_t value);
  void add(double value);

  /// Digest of everything added so far; more values may be added afterwards.
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Digest of the bytes without the NaN rule, to detect any change.
Digest raw_digest(const void* data, std::int64_t num_bytes);

}  // namespace zeroproof
