#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/gradients/binned_element.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

constexpr int quarter =
    4;  // elements of hi, lo and values in 16 bytes; 16 bytes hold four times as many of top

/// The fields of sums.
struct DeviceBins {
  std::int32_t* hi;  // [numel], as all below
  std::int32_t* lo;
  std::uint8_t* top;

  ZP_DEVICE BinnedElement get(std::int64_t i) const { return {hi[i], lo[i], top[i]}; }
  ZP_DEVICE void set(std::int64_t i, const BinnedElement& sum) const {
    hi[i] = sum.hi;
    lo[i] = sum.lo;
    top[i] = static_cast<std::uint8_t>(sum.top);
  }
};

/// Four elements in registers.
struct FourBins {
  Pack<std::int32_t> hi, lo;

  ZP_DEVICE static FourBins load(const DeviceBins& bins, std::int64_t i) {
    return {load_pack(bins.hi + i), load_pack(bins.lo + i)};
  }
  ZP_DEVICE void store(const DeviceBins& bins, std::int64_t i) const {
    store_pack(bins.hi + i, hi);
    store_pack(bins.lo + i, lo);
  }
  ZP_DEVICE BinnedElement get(int k, std::uint8_t top) const { return {hi.v[k], lo.v[k], top}; }
  ZP_DEVICE void set(int k, const BinnedElement& sum) {
    hi.v[k] = sum.hi;
    lo.v[k] = sum.lo;
  }
};

struct Deposit {
  static constexpr int pack_numel = 16;
  const float* leaf;
  DeviceBins bins;

  ZP_DEVICE void one(std::int64_t i) const { bins.set(i, binned_deposited(bins.get(i), leaf[i])); }

  ZP_DEVICE void pack(std::int64_t i) const {
    Pack<std::uint8_t> top = load_pack(bins.top + i);
    ZP_UNROLL
    for (int q = 0; q < pack_numel; q += quarter) {
      FourBins four = FourBins::load(bins, i + q);
      const Pack<float> x = load_pack(leaf + i + q);
      ZP_UNROLL
      for (int k = 0; k < quarter; ++k) {
        const BinnedElement sum = binned_deposited(four.get(k, top.v[q + k]), x.v[k]);
        four.set(k, sum);
        top.v[q + k] = static_cast<std::uint8_t>(sum.top);
      }
      four.store(bins, i + q);
    }
    store_pack(bins.top + i, top);
  }
};

struct Merge {
  static constexpr int pack_numel = 16;
  DeviceBins from;
  DeviceBins into;

  ZP_DEVICE void one(std::int64_t i) const { into.set(i, binned_merged(from.get(i), into.get(i))); }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<std::uint8_t> from_top = load_pack(from.top + i);
    Pack<std::uint8_t> top = load_pack(into.top + i);
    ZP_UNROLL
    for (int q = 0; q < pack_numel; q += quarter) {
      const FourBins other = FourBins::load(from, i + q);
      FourBins four = FourBins::load(into, i + q);
      ZP_UNROLL
      for (int k = 0; k < quarter; ++k) {
        const BinnedElement sum =
            binned_merged(other.get(k, from_top.v[q + k]), four.get(k, top.v[q + k]));
        four.set(k, sum);
        top.v[q + k] = static_cast<std::uint8_t>(sum.top);
      }
      four.store(into, i + q);
    }
    store_pack(into.top + i, top);
  }
};

struct Finish {
  static constexpr int pack_numel = 16;
  DeviceBins bins;
  float* result;

  ZP_DEVICE void one(std::int64_t i) const { result[i] = binned_finished(bins.get(i)); }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<std::uint8_t> top = load_pack(bins.top + i);
    ZP_UNROLL
    for (int q = 0; q < pack_numel; q += quarter) {
      const FourBins four = FourBins::load(bins, i + q);
      Pack<float> x;
      ZP_UNROLL
      for (int k = 0; k < quarter; ++k) x.v[k] = binned_finished(four.get(k, top.v[q + k]));
      store_pack(result + i + q, x);
    }
  }
};

void require_fields(const BinnedSum& sum) {
  require_same_numel("hi", sum.hi, "lo", sum.lo);
  require_same_numel("hi", sum.hi, "top", sum.top);
}

DeviceBins bins_of(const BinnedSum& sum) { return {sum.hi.data(), sum.lo.data(), sum.top.data()}; }

}  // namespace

void binned_deposit(const Exec&, Span<const float> leaf, const BinnedSum& sum) {
  require_fields(sum);
  require_same_numel("leaf", leaf, "hi", sum.hi);
  if (leaf.empty()) return;
  const Deposit operation{leaf.data(), bins_of(sum)};
  run_elementwise(operation, numel(leaf), operation.leaf, operation.bins.hi, operation.bins.lo,
                  operation.bins.top);
}

void binned_merge(const Exec&, const BinnedSum& from, const BinnedSum& into) {
  require_fields(from);
  require_fields(into);
  require_same_numel("from", from.hi, "into", into.hi);
  if (into.hi.empty()) return;
  const Merge operation{bins_of(from), bins_of(into)};
  run_elementwise(operation, numel(into.hi), operation.from.hi, operation.from.lo,
                  operation.from.top, operation.into.hi, operation.into.lo, operation.into.top);
}

void binned_finish(const Exec&, const BinnedSum& sum, Span<float> result) {
  require_fields(sum);
  require_same_numel("hi", sum.hi, "result", result);
  if (result.empty()) return;
  const Finish operation{bins_of(sum), result.data()};
  run_elementwise(operation, numel(result), operation.bins.hi, operation.bins.lo,
                  operation.bins.top, operation.result);
}

}  // namespace zeroproof::cuda::device
