#pragma once
// Binned sums on a device, checked byte by byte against integers computed from all gradients at
// once.

#include "tests/cuda/device/node_view_support.hpp"

namespace zeroproof::device_test {

using Values = std::vector<float>;

struct ExactSum {
  std::int64_t hi = 0, lo = 0;
  int top = 0;
  float finished = 0;
};

/// The bin of the highest bit of a value that is not 0: bit 0 is 2^-149, and a bin has 24.
inline int bin_of(float x) { return (std::ilogb(x) + 149) / 24; }

/// V rounded to 24 bits, nearest even, times 2^exponent.
inline float rounded_by_hand(std::int64_t value, int exponent) {
  std::uint64_t bits =
      value < 0 ? -static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  int dropped = 0;
  while (bits >> dropped >= 1U << 24) ++dropped;
  const std::uint64_t rest = bits & ((std::uint64_t{1} << dropped) - 1),
                      half = (std::uint64_t{1} << dropped) / 2;
  bits >>= dropped;
  if (dropped > 0 && (rest > half || (rest == half && bits % 2 == 1))) ++bits;
  const double magnitude = std::ldexp(static_cast<double>(bits), dropped + exponent);  // exact
  return static_cast<float>(value < 0 ? -magnitude : magnitude);
}

/// The retained digits of all gradients: two digits to the base 2^24 for those in the highest bin,
/// one for those one bin lower.
inline ExactSum sum_by_hand(const Values& leaves) {
  ExactSum sum;
  for (const float x : leaves) {
    if (!std::isfinite(x)) return {0, 0, 255, NAN};
    if (x != 0) sum.top = std::max(sum.top, bin_of(x));
  }
  for (const float x : leaves) {
    if (x == 0 || bin_of(x) + 1 < sum.top) continue;
    const double digits =
        std::ldexp(static_cast<double>(x), 149 - 24 * bin_of(x));  // exact, below 2^24
    const double first = std::trunc(digits), second = (digits - first) * 0x1p24;
    (bin_of(x) == sum.top ? sum.hi : sum.lo) += static_cast<std::int64_t>(first);
    if (bin_of(x) == sum.top) sum.lo += static_cast<std::int64_t>(second);
  }
  const std::int64_t value = sum.top > 0 ? sum.hi * (1 << 24) + sum.lo : sum.hi;
  sum.finished = rounded_by_hand(value, 24 * std::max(sum.top - 1, 0) - 149);
  return sum;
}

/// Gradient j of element i: some of similar size, some of all sizes, some subnormal, and a few
/// nonfinite.
inline std::uint32_t leaf_bits(DType dtype, std::uint64_t i, std::uint64_t j) {
  const std::uint32_t random = hash(i, j + 10), kind = hash(i, 3) % 10;
  if (kind == 0) return some_bits(dtype, i, j + 10);
  const std::uint32_t largest = dtype == DType::fp16 ? 30 : 254;
  const std::uint32_t spread = kind < 4 ? 3 : kind < 7 ? 60 : 255;
  const std::uint32_t highest = kind == 9 ? 0 : hash(i, 4) % (largest + 1);
  const std::uint32_t lower = hash(i, j + 500) % spread;
  const std::uint32_t exponent = highest > lower ? highest - lower : 0;
  if (dtype == DType::fp16) return (random & 0x83FFU) | exponent << 10;
  const std::uint32_t bits = (random & 0x807FFFFFU) | exponent << 23;
  return dtype == DType::bf16 ? bits >> 16 : bits;
}

/// Sums over pieces.
struct DeviceSums {
  DeviceSums(const std::vector<Piece>& pieces, Placement placement)
      : hi(pieces, 4, placement), lo(pieces, 4, placement), top(pieces, 1, placement) {
    for (PlacedBuffer* field : {&hi, &lo, &top}) {
      for (const Piece& piece : pieces) {
        for (std::int64_t i = 0; i < piece.numel; ++i) field->set(piece, i, 0);
      }
      field->upload();
    }
  }
  cuda::device::PlacedBins bins() const {
    return {hi.values(DType::fp32), lo.values(DType::fp32), top.values(DType::fp32)};
  }

  PlacedBuffer hi, lo, top;
};

struct BinnedWorld {
  BinnedWorld(const std::vector<std::int64_t>& numels, Placement bin_place, Placement leaf_place)
      : pieces(pieces_of(numels)), list(pieces), bin_place_(bin_place), leaf_place_(leaf_place) {}

  PlacedBuffer& add_leaf(DType dtype) {
    const std::uint64_t j = leaves.size();
    leaves.emplace_back(pieces, static_cast<int>(num_bytes(dtype)), leaf_place_);
    dtypes.push_back(dtype);
    for (const Piece& piece : pieces) {
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        leaves.back().set(piece, i,
                          leaf_bits(dtype, static_cast<std::uint64_t>(piece.local_begin + i), j));
      }
    }
    leaves.back().upload();
    return leaves.back();
  }
  DeviceSums sums() const { return {pieces, bin_place_}; }
  void deposit(std::size_t j, const DeviceSums& into) const {
    cuda::device::enqueue_binned_deposit(list.get(), leaves[j].values(dtypes[j]), into.bins());
  }

  /// Checks every byte of the sums and of their results.
  void check(DeviceSums& sums) const {
    PlacedBuffer result(pieces, 4, leaf_place_);
    result.upload();
    cuda::device::enqueue_binned_finish(list.get(), sums.bins(), result.values(DType::fp32));
    for (PlacedBuffer* buffer : {&sums.hi, &sums.lo, &sums.top, &result}) buffer->download();
    std::int64_t wrong = 0;
    for (const Piece& piece : pieces) {
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        Values values;
        for (std::size_t j = 0; j < leaves.size(); ++j) {
          values.push_back(widened_by_hand(dtypes[j], leaves[j].get(piece, i)));
        }
        const ExactSum sum = sum_by_hand(values);
        const bool bins = static_cast<std::int32_t>(sums.hi.get(piece, i)) == sum.hi &&
                          static_cast<std::int32_t>(sums.lo.get(piece, i)) == sum.lo;
        const bool top = static_cast<int>(sums.top.get(piece, i)) == sum.top;
        const bool all = top && (bins || sum.top == 255) &&
                         same(std::bit_cast<float>(result.get(piece, i)), sum.finished);
        if (!all) ++wrong;
        for (PlacedBuffer* buffer : {&sums.hi, &sums.lo, &sums.top, &result})
          buffer->take_back(piece, i);
      }
    }
    CHECK(wrong == 0);
    for (const PlacedBuffer* buffer : {&sums.hi, &sums.lo, &sums.top, &result})
      CHECK(buffer->is_as_uploaded());
  }

  std::vector<Piece> pieces;
  DevicePieceList list;
  std::vector<PlacedBuffer> leaves;
  std::vector<DType> dtypes;

 private:
  Placement bin_place_, leaf_place_;
};

}  // namespace zeroproof::device_test
