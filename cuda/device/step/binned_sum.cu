#include <string>

#include "common/base/error.hpp"
#include "cuda/device/kernels/gradients/binned_element.cuh"
#include "cuda/device/step/few_values.cuh"
#include "cuda/device/step/fold_nodes.hpp"

namespace zeroproof::cuda::device {

namespace {

constexpr int blocks = 4;  // that a multiprocessor holds

/// One or four sums in registers.
template <int width>
struct Bins {
  Words<width> hi, lo;
  std::uint32_t tops = 0;  // 8 bits each, the earliest in the lowest

  ZP_DEVICE BinnedElement get(int k) const {
    return {static_cast<std::int32_t>(hi.v[k]), static_cast<std::int32_t>(lo.v[k]),
            tops >> (8 * k) & 0xFFU};
  }
  ZP_DEVICE void set(int k, const BinnedElement& sum) {
    hi.v[k] = static_cast<std::uint32_t>(sum.hi);
    lo.v[k] = static_cast<std::uint32_t>(sum.lo);
    tops = (tops & ~(0xFFU << (8 * k))) | sum.top << (8 * k);
  }
};

struct BinAddresses {
  PlacedAddress hi, lo, top;

  template <int width>
  ZP_DEVICE Bins<width> load(const Place& place) const {
    Bins<width> bins;
    bins.hi = *reinterpret_cast<const Words<width>*>(hi.at<std::uint32_t>(place));
    bins.lo = *reinterpret_cast<const Words<width>*>(lo.at<std::uint32_t>(place));
    if constexpr (width == 1) {
      bins.tops = *top.at<std::uint8_t>(place);
    } else {
      bins.tops = *reinterpret_cast<const std::uint32_t*>(top.at<std::uint8_t>(place));
    }
    return bins;
  }

  template <int width>
  ZP_DEVICE void store(const Place& place, const Bins<width>& bins) const {
    *reinterpret_cast<Words<width>*>(hi.at<std::uint32_t>(place)) = bins.hi;
    *reinterpret_cast<Words<width>*>(lo.at<std::uint32_t>(place)) = bins.lo;
    if constexpr (width == 1) {
      *top.at<std::uint8_t>(place) = static_cast<std::uint8_t>(bins.tops);
    } else {
      *reinterpret_cast<std::uint32_t*>(top.at<std::uint8_t>(place)) = bins.tops;
    }
  }
};

BinAddresses bin_addresses(const PlacedBins& bins, PackHeads& heads) {
  return {placed_address(bins.hi, sizeof(std::int32_t), heads),
          placed_address(bins.lo, sizeof(std::int32_t), heads),
          placed_address(bins.top, sizeof(std::uint8_t), heads)};
}

/// `run<width>(place)` of an operation, for one element or for packs.
template <class Operation>
struct Runs {
  static constexpr int packs_at_once = 1;

  ZP_DEVICE void one(const Place& place) const { operation.template run<1>(place); }

  template <int>
  ZP_DEVICE void packs(const Place& place) const {
    operation.template run<walk_pack_numel>(place);
  }

  Operation operation;
};

template <LoadType type>
struct Deposit {
  PlacedAddress leaf;
  BinAddresses bins;

  template <int width>
  ZP_DEVICE void run(const Place& place) const {
    const Words<width> words = load_words<type, width>(leaf, place);
    Bins<width> sums = bins.load<width>(place);
    const Floats<width> values = widened<type>(words, leaf.dtype);
    ZP_UNROLL
    for (int k = 0; k < width; ++k) sums.set(k, binned_deposited(sums.get(k), values.v[k]));
    bins.store(place, sums);
  }
};

struct Merge {
  BinAddresses from, into;

  template <int width>
  ZP_DEVICE void run(const Place& place) const {
    const Bins<width> others = from.load<width>(place);
    Bins<width> sums = into.load<width>(place);
    ZP_UNROLL
    for (int k = 0; k < width; ++k) sums.set(k, binned_merged(others.get(k), sums.get(k)));
    into.store(place, sums);
  }
};

struct Finish {
  BinAddresses bins;
  PlacedAddress result;

  template <int width>
  ZP_DEVICE void run(const Place& place) const {
    const Bins<width> sums = bins.load<width>(place);
    Floats<width> values;
    ZP_UNROLL
    for (int k = 0; k < width; ++k) values.v[k] = binned_finished(sums.get(k));
    store(result, place, values);
  }
};

template <class Operation>
ZP_KERNEL_BLOCKS(blocks)
binned_kernel(Operation operation, DevicePieces pieces, PackHeads heads) {
  run_pieces(pieces, heads, Runs<Operation>{operation});
}

template <class Operation>
void enqueue(const DevicePieces& pieces, const Operation& operation, const PackHeads& heads) {
  if (pieces.count <= 0) return;
  launch(binned_kernel<Operation>, walk_grid(blocks), block_threads, operation, pieces, heads);
}

}  // namespace

void enqueue_binned_deposit(const DevicePieces& pieces, const PlacedValues& leaf,
                            const PlacedBins& bins) {
  ZP_CHECK(is_param_format(leaf.dtype), ErrorCode::invalid_argument,
           "the micro-batch gradient of a binned sum is " + std::string(name(leaf.dtype)),
           "gradients are fp32, bf16 or fp16", "widen it first");
  PackHeads heads;
  const PlacedAddress from = placed_address(leaf, num_bytes(leaf.dtype), heads);
  const BinAddresses into = bin_addresses(bins, heads);
  switch (load_type(leaf.dtype)) {
    case LoadType::bf16:
      return enqueue(pieces, Deposit<LoadType::bf16>{from, into}, heads);
    case LoadType::fp16:
      return enqueue(pieces, Deposit<LoadType::fp16>{from, into}, heads);
    default:
      return enqueue(pieces, Deposit<LoadType::fp32>{from, into}, heads);
  }
}

void enqueue_binned_merge(const DevicePieces& pieces, const PlacedBins& from,
                          const PlacedBins& into) {
  PackHeads heads;
  const BinAddresses left = bin_addresses(from, heads);
  const BinAddresses right = bin_addresses(into, heads);
  enqueue(pieces, Merge{left, right}, heads);
}

void enqueue_binned_finish(const DevicePieces& pieces, const PlacedBins& bins,
                           const PlacedValues& result) {
  ZP_CHECK(result.dtype == DType::fp32, ErrorCode::invalid_argument,
           "the result of binned sums is " + std::string(name(result.dtype)),
           "sums are rounded to fp32 (R11)", "pass an fp32 buffer");
  PackHeads heads;
  const BinAddresses from = bin_addresses(bins, heads);
  const PlacedAddress to = placed_address(result, num_bytes(result.dtype), heads);
  enqueue(pieces, Finish{from, to}, heads);
}

}  // namespace zeroproof::cuda::device
