#pragma once
// Buffers at chosen places in memory, their contents, and equality of bits, for tests of the device
// implementations.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::device_test {

/// Numbers of the formats. overflow: the magnitude that infinity is rounded to; first_nan: the smallest NaN.
template <class T>
struct FormatOf;
template <>
struct FormatOf<bf16> {
  static constexpr int num_bits = 16, overflow = 0x7F80, first_nan = 0x7F81;
};
template <>
struct FormatOf<fp16> {
  static constexpr int num_bits = 16, overflow = 0x7C00, first_nan = 0x7C01;
};
template <>
struct FormatOf<e4m3> {
  static constexpr int num_bits = 8, overflow = 0x7E, first_nan = 0x7F;
};
template <>
struct FormatOf<e5m2> {
  static constexpr int num_bits = 8, overflow = 0x7B, first_nan = 0x7D;
};

template <class Format>
int magnitude(Format value) {
  return value.bits & ((1 << (FormatOf<Format>::num_bits - 1)) - 1);
}

inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <class Format>
bool same(Format a, Format b) {
  constexpr int first_nan = FormatOf<Format>::first_nan;
  return a.bits == b.bits || (magnitude(a) >= first_nan && magnitude(b) >= first_nan);
}

inline bool same(e8m0 a, e8m0 b) { return a.bits == b.bits; }

/// numel elements, `offset` elements behind a 16-byte boundary, between guard bytes.
template <class T>
class Place {
 public:
  Place(std::int64_t numel, int offset)
      : numel_(static_cast<std::size_t>(numel)),
        before_(static_cast<std::size_t>(offset) + 16),
        storage_(before_ + numel_ + 16) {
    std::memset(static_cast<void*>(storage_.data()), guard, storage_.size() * sizeof(T));
  }
  Span<T> span() { return {storage_.data() + before_, numel_}; }
  Span<const T> span() const { return {storage_.data() + before_, numel_}; }
  T operator[](std::int64_t i) const { return storage_[before_ + static_cast<std::size_t>(i)]; }

  /// The same bytes, around the elements too; NaNs with other payloads make a difference.
  bool same_bytes(const Place& other) const {
    return before_ == other.before_ && storage_.size() == other.storage_.size() &&
           std::memcmp(storage_.data(), other.storage_.data(), storage_.size() * sizeof(T)) == 0;
  }

  /// Every element has the expected bits, and the bytes around them are unchanged.
  template <class Expected>
  void check(Expected&& expected) const {
    std::int64_t differ = 0, first = -1;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(numel_); ++i) {
      if (same((*this)[i], expected(i))) continue;
      if (differ++ == 0) first = i;
    }
    CAPTURE(first);
    CHECK(differ == 0);
    CHECK(guards_intact());
  }

 private:
  static constexpr unsigned char guard = 0xA5;

  bool guards_intact() const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(storage_.data());
    for (std::size_t i = 0; i < storage_.size() * sizeof(T); ++i) {
      const bool inside = i >= before_ * sizeof(T) && i < (before_ + numel_) * sizeof(T);
      if (!inside && bytes[i] != guard) return false;
    }
    return true;
  }

  std::size_t numel_;
  std::size_t before_;
  std::vector<T> storage_;
};

inline std::uint32_t hash(std::uint64_t i, std::uint64_t stream) {
  std::uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ULL + stream * 0xD1B54A32D192ED03ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::uint32_t>((x ^ x >> 27) >> 16);
}

/// Special values, random bits, and values of the usual size, in turn.
inline void fill(Span<float> values, std::uint64_t stream) {
  constexpr std::uint32_t special[] = {
      0,          0x80000000, 1,          0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000,
      0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001,
      0x33000000, 0x33000001, 0x33800000, 0x38800000, 0x387FE000, 0x387FF000, 0x477FE000,
      0x477FEFFF, 0x477FF000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7F8000, 0x7F7F7FFF,
      0x3F801000, 0x3F803000, 0x00008000, 0x00018000};
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = hash(i, stream);
    if (bits % 3 == 0) values[i] = std::bit_cast<float>(special[bits / 3 % std::size(special)]);
    if (bits % 3 == 1) values[i] = std::bit_cast<float>(hash(i, stream + 100));
    if (bits % 3 == 2) values[i] = (static_cast<float>(bits >> 8) - 0x1p23F) * 0x1p-24F;
  }
}

template <class Format>
void fill(Span<Format> values, std::uint64_t stream) {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i].bits = static_cast<decltype(Format::bits)>(hash(i, stream));
  }
}

inline void fill_finite(Span<float> values, std::uint64_t stream) {
  fill(values, stream);
  for (float& x : values) {
    if (!std::isfinite(x)) x = -0.0F;
  }
}

}  // namespace zeroproof::device_test
