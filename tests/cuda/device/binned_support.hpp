#pragma once
// Binned sums on a device, checked byte by byte against the reference.

#include "reference/operations.hpp"
#include "tests/cuda/device/node_view_support.hpp"

namespace zeroproof::device_test {

using Values = std::vector<float>;

struct ExactSum {
  std::int64_t hi = 0, lo = 0;
  int top = 0;
  float finished = 0;
};

/// The sum by the reference.
inline ExactSum reference_sum(const Values& leaves) {
  std::int32_t hi = 0, lo = 0;
  std::uint8_t top = 0;
  ExactSum sum;
  const BinnedSum bins{{&hi, 1}, {&lo, 1}, {&top, 1}};
  for (const float& leaf : leaves) reference::binned_deposit({}, {&leaf, 1}, bins);
  reference::binned_finish({}, bins, {&sum.finished, 1});
  sum.hi = hi, sum.lo = lo, sum.top = top;
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
        const ExactSum sum = reference_sum(values);
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
