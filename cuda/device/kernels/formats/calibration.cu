// Choices of a calibration from bin counts (R26), and the scale factors of channels.

#include "cuda/device/kernels/base/device_value.hpp"
#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/formats/elementary64.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/formats/calibration_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Saturates at too_many_counted; such counts are not used.
ZP_HOST_DEVICE inline std::uint64_t sum_of_counts(std::uint64_t a, std::uint64_t b) {
  return a < too_many_counted && b < too_many_counted - a ? a + b : too_many_counted;
}

float edge_of(std::int64_t bin, float width) {
  return static_cast<float>(static_cast<double>(bin) * static_cast<double>(width));
}

/// Consecutive bins, those of one thread of a block.
struct Run {
  std::int64_t begin, end;

  ZP_HOST_DEVICE Run(std::int64_t bins, std::int64_t thread) {
    const std::int64_t each = (bins + block_threads - 1) / block_threads;
    begin = thread * each < bins ? thread * each : bins;
    end = bins - begin < each ? bins : begin + each;
  }
};

struct Share {
  std::uint64_t elements;  // of all bins
  std::int64_t bin;        // the first bin up to which the counts reach the share
};

/// One block: each thread adds up its run; the first thread then walks the runs, and then the bins
/// of one run.
ZP_KERNEL share_kernel(const std::uint64_t* count, std::int64_t bins, double share, Share* found) {
  ZP_SHARED_ARRAY(std::uint64_t, sums, block_threads);
  const Run own(bins, threadIdx.x);
  std::uint64_t sum = 0;
  for (std::int64_t k = own.begin; k < own.end; ++k) sum = sum_of_counts(sum, count[k]);
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  std::uint64_t elements = 0;
  for (int run = 0; run < block_threads; ++run) elements = sum_of_counts(elements, sums[run]);
  const double enough = share * static_cast<double>(elements);
  std::uint64_t up_to = 0;
  int run = 0;
  for (; run + 1 < block_threads; ++run) {
    const std::uint64_t with = sum_of_counts(up_to, sums[run]);
    if (static_cast<double>(with) >= enough) break;
    up_to = with;
  }
  std::int64_t bin = Run(bins, run).begin;
  for (; bin + 1 < bins; ++bin) {
    up_to = sum_of_counts(up_to, count[bin]);
    if (static_cast<double>(up_to) >= enough) break;
  }
  *found = {elements, bin};
}

struct Counted {
  std::uint64_t elements;  // of all bins
  std::uint64_t judged;    // elements in the entropy: bin 0 uses the count of bin 1
  std::int64_t last;       // last bin that is not empty; 0 if only the first one has elements
};

ZP_KERNEL counted_kernel(const std::uint64_t* count, std::int64_t bins, Counted* found) {
  ZP_SHARED_ARRAY(std::uint64_t, sums, block_threads);
  ZP_SHARED_ARRAY(std::int64_t, lasts, block_threads);
  const Run own(bins, threadIdx.x);
  std::uint64_t sum = 0;
  std::int64_t last = 0;
  for (std::int64_t k = own.begin; k < own.end; ++k) {
    sum = sum_of_counts(sum, count[k]);
    if (count[k] != 0) last = k;
  }
  sums[threadIdx.x] = sum;
  lasts[threadIdx.x] = last;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int run = 1; run < block_threads; ++run) {
    sum = sum_of_counts(sum, sums[run]);
    if (lasts[run] > last) last = lasts[run];
  }
  *found = {sum, sum - count[0] + count[1], last};
}

/// R26: number of elements of a bin in the entropy.
ZP_HOST_DEVICE inline std::uint64_t judged_of(const std::uint64_t* count, int bin) {
  return count[bin == 0 ? 1 : bin];
}

/// R26, D(kept): start of a level, counting its elements first. kept >= levels, so that every level
/// has bins; products of the two are below 2^28.
ZP_HOST_DEVICE inline double divergence_of(const std::uint64_t* count, const Counted& counted,
                                           int levels, int kept) {
  double s = 0.0, q = 1.0;
  std::uint64_t inside = 0;
  int level = 0, end = 0;
  for (int bin = 0; bin < kept; ++bin) {
    if (bin == end) {
      ++level;
      std::uint64_t elements = 0;
      int used = 0;
      for (; end * levels < level * kept; ++end) {
        const std::uint64_t more = judged_of(count, end);
        elements += more;
        used += more != 0 ? 1 : 0;
      }
      inside += elements;
      q = static_cast<double>(elements) / static_cast<double>(used > 0 ? used : 1);
    }
    const std::uint64_t here = judged_of(count, bin);
    if (here == 0) continue;
    const std::uint64_t clipped = bin + 1 == kept ? counted.judged - inside : 0;
    const double p = static_cast<double>(here + clipped);
    const double r = p / q;
    const double y = p * log64(r);
    s = s + y;
  }
  const double all = static_cast<double>(counted.judged);
  const double r = static_cast<double>(inside) / all;
  return s / all + log64(r);
}

/// divergence: [clips], for levels, levels + 1, .. bins; one thread each.
ZP_KERNEL divergence_kernel(const std::uint64_t* count, Counted counted, int levels, int clips,
                            double* divergence) {
  const int stride = static_cast<int>(gridDim.x * blockDim.x);
  for (int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); c < clips; c += stride) {
    const int kept = levels + c;
    const bool infinite = counted.last >= kept && judged_of(count, kept - 1) == 0;
    divergence[c] =
        infinite ? double_of(0x7FF0000000000000ULL) : divergence_of(count, counted, levels, kept);
  }
}

/// One block: the last index of the smallest value. divergence: [numel], numel > 0, no NaN.
ZP_KERNEL least_kernel(const double* divergence, std::int64_t numel, std::int64_t* least) {
  ZP_SHARED_ARRAY(std::int64_t, places, block_threads);
  const Run own(numel, threadIdx.x);
  std::int64_t place = own.begin < numel ? own.begin : 0;
  for (std::int64_t c = own.begin; c < own.end; ++c) {
    if (divergence[c] <= divergence[place]) place = c;
  }
  places[threadIdx.x] = place;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int run = 1; run < block_threads; ++run) {
    const std::int64_t other = places[run];
    const bool later = other > place;  // a run without bins has the first index
    if (later && divergence[other] <= divergence[place]) place = other;
  }
  *least = place;
}

struct SmoothScale {
  static constexpr int pack_numel = 1;
  double alpha;
  const std::uint32_t* input_amax;   // [channels]
  const std::uint32_t* weight_amax;  // [channels]
  float* scale;                      // [channels]

  ZP_DEVICE void one(std::int64_t i) const {
    const std::uint32_t x = input_amax[i], y = weight_amax[i];
    constexpr std::uint32_t least_input = 0x30000000U, infinite = 0x7F800000U;  // 2^-31
    if (x <= least_input || x >= infinite || y >= infinite) {
      scale[i] = 1.0F;
      return;
    }
    const double input = static_cast<double>(float_of(x)),
                 weight = static_cast<double>(float_of(y));
    double v = 1.0, u = 1.0;
    if (alpha == 1.0) {
      v = input;
    } else {
      if (alpha != 0.0) v = exp64(alpha * log64(input));
      u = weight;
      if (alpha != 0.0 && y != 0) u = exp64((1.0 - alpha) * log64(weight));
    }
    const float s = static_cast<float>(u / v);
    constexpr float low = 1e-4F, high = 1e4F;
    scale[i] = s < low ? low : s > high ? high : s;
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

}  // namespace

float percentile_amax(Span<const std::uint64_t> count, float width, double percentile) {
  require_percentile(percentile);
  require_bins("percentile_amax", numel(count), width);
  const DeviceValue<Share> found({});
  launch(share_kernel, 1, block_threads, count.data(), numel(count), percentile / 100, found.get());
  const Share share = found.fetch();
  require_counted("percentile_amax", share.elements);
  return edge_of(share.bin, width);
}

float entropy_amax(const Exec&, Span<const std::uint64_t> count, float width, int bits) {
  require_entropy_bits(bits);
  require_bins("entropy_amax", numel(count), width);
  const DeviceValue<Counted> found({});
  launch(counted_kernel, 1, block_threads, count.data(), numel(count), found.get());
  const Counted counted = found.fetch();
  require_counted("entropy_amax", counted.elements);
  if (counted.last == 0) return 0;
  const int levels = 1 << (bits - 1);
  const DeviceArray<double> divergence(numel(count) - levels + 1);
  launch(divergence_kernel, grid_blocks(divergence.count()), block_threads, count.data(), counted,
         levels, static_cast<int>(divergence.count()), divergence.data());
  const DeviceValue<std::int64_t> least(0);
  launch(least_kernel, 1, block_threads, static_cast<const double*>(divergence.data()),
         divergence.count(), least.get());
  return edge_of(levels + least.fetch(), width);
}

void smooth_scales(const Exec&, double alpha, Span<const std::uint32_t> input_amax,
                   Span<const std::uint32_t> weight_amax, Span<float> scale) {
  require_same_numel("input_amax", input_amax, "weight_amax", weight_amax);
  require_same_numel("input_amax", input_amax, "scale", scale);
  require_alpha(alpha);
  if (scale.empty()) return;
  run_elementwise(SmoothScale{alpha, input_amax.data(), weight_amax.data(), scale.data()},
                  numel(scale));
}

}  // namespace zeroproof::cuda::device
