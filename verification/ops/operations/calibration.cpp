// Results of a calibration from counts, errors and the amax of channels.

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/contracts/histogram.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/limb_words.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"

namespace zeroproof::verification {
namespace {

/// Counts as data have them: many small magnitudes and a tail with gaps; flat; a few bins; one bin. Illegal in the last
/// variant.
std::vector<std::uint64_t> drawn_counts(const OpCall& call) {
  std::vector<std::uint64_t> count(fewest_bins + call.numel());
  const std::uint32_t shape = call.words(9, 0)[0] % 5U;
  for (std::size_t k = 0; k < count.size(); ++k) {
    const PhiloxBlock w = call.words(0, static_cast<std::int64_t>(k));
    const std::uint64_t tail = std::uint64_t{1}
                               << (20 - std::min<std::size_t>(20, 25 * k / count.size()));
    if (shape == 0) count[k] = w[0] % (tail + 1);
    if (shape == 1) count[k] = 1 + w[0] % 100U;
    if (shape == 2) count[k] = w[0] % 40U == 0 ? 1 + w[1] % 3U : 0;
    if (shape == 3) count[k] = std::uint64_t{w[0]} << 8;
  }
  if (shape == 4) count[0] = 17;
  if (shape == 2) count[count.size() / 2] += 1;
  return count;
}

/// One error by the size of the call: nothing counted, too much counted, too few bins, an invalid
/// width.
void spoil_counts(const OpCall& call, std::vector<std::uint64_t>& count, float& width) {
  switch (call.numel() % 4) {
    case 0:
      std::ranges::fill(count, 0U);
      break;
    case 1:
      count[count.size() / 2] = std::uint64_t{1} << 53;
      break;
    case 2:
      count.resize(fewest_bins - 1);
      break;
    default:
      width = call.numel() % 8 < 4 ? 0.0F : INFINITY;
  }
}

float drawn_bin_width(const OpCall& call) {
  const PhiloxBlock w = call.words(9, 1);
  const float two = std::ldexp(1.0F, static_cast<int>(w[0] % 40U) - 30);
  return w[1] % 2U == 0 ? two : two * (1.0F + static_cast<float>(w[2] % 1000U) / 1024.0F);
}

constexpr double percentiles[] = {99.99, 100, 50, 0, 99.9, 99.99, 101};

OpFunction run_percentile(PercentileAmaxFn* implementation) {
  return [implementation](OpCall& call) {
    std::vector<std::uint64_t> count = drawn_counts(call);
    float width = drawn_bin_width(call);
    if (call.variant() == 5) spoil_counts(call, count, width);
    float amax = 0;
    call.get<std::uint32_t>(1)[0] =
        refused([&] { amax = implementation(count, width, percentiles[call.variant()]); });
    call.get<float>(0)[0] = amax;
  };
}

constexpr int entropy_bits[] = {8, 4, 2, 8, 9};

OpFunction run_entropy(EntropyAmaxFn* implementation) {
  return [implementation](OpCall& call) {
    std::vector<std::uint64_t> count = drawn_counts(call);
    float width = drawn_bin_width(call);
    if (call.variant() == 3) spoil_counts(call, count, width);
    float amax = 0;
    call.get<std::uint32_t>(1)[0] = refused(
        [&] { amax = implementation(call.exec, count, width, entropy_bits[call.variant()]); });
    call.get<float>(0)[0] = amax;
  };
}

constexpr std::int64_t clip_blocks = 3;
constexpr std::int64_t clip_words = clip_blocks * num_clips * static_cast<std::int64_t>(limb_words);

OpFunction run_clip_errors(ClipErrorsFn* implementation, GradNormNormaliseFn* normalise) {
  return [=](OpCall& call) {
    // Columns shared by three blocks, so that a row is split into three ranges.
    constexpr std::int64_t columns = 23, first = 7;
    FakeQuantization options{
        {(first + call.numel()) / columns + 1, columns, std::int64_t{1} << 40, 9}};
    if (call.variant() == 1) options.bits = 4;
    if (call.variant() == 2) options.format = FakeFormat::e4m3;
    if (call.variant() == 3) options.format = FakeFormat::e5m2;
    std::vector<std::uint32_t> amax(clip_blocks);
    reference::block_amax({}, options.grid, QuantizedValue::direct, first, call.in<float>(0), amax);
    std::vector<NormLimbs> errors(clip_blocks * num_clips,
                                  initial_limbs(call.variant() == 1 ? 1 : 0));
    if (call.variant() == 4) errors.pop_back();
    call.get<std::uint32_t>(2)[0] = refused(
        [&] { implementation(call.exec, options, first, call.in<float>(0), amax, errors); });
    errors.resize(clip_blocks * num_clips);
    for (std::size_t k = 0; k < errors.size(); ++k) {
      normalise(errors[k]);  // carries are free before
      put_limbs(errors[k], call.get<std::uint64_t>(1).subspan(k * limb_words, limb_words));
    }
  };
}

/// Limbs at any height, some of them as large as those before; few with NaNs.
void draw_clip_limbs(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const Span<std::uint64_t> set = call.get<std::uint64_t>(0).subspan(
        static_cast<std::size_t>(i) * num_clips * limb_words, num_clips * limb_words);
    const bool keeps_counts = call.words(9, i)[0] % 8U == 0;
    for (std::size_t c = 0; c < num_clips; ++c) {
      const Span<std::uint64_t> words = set.subspan(c * limb_words, limb_words);
      draw_limb_set(call, i, static_cast<std::uint32_t>(c * (limb_words + 1)), words);
      if (c > 0 && words[0] % 3U == 0)
        std::copy_n(set.subspan((c - 1) * limb_words).begin(), limb_words, words.begin());
      if (!keeps_counts) words[21] = words[22] = 0;
    }
    call.get<std::uint32_t>(1)[i] = call.words(9, i)[1] >> 1;
  }
}

OpFunction run_clip_of_errors(ClipOfErrorsFn* implementation) {
  return [implementation](OpCall& call) {
    std::vector<NormLimbs> errors(static_cast<std::size_t>(call.numel()) * num_clips);
    for (std::size_t k = 0; k < errors.size(); ++k)
      errors[k] = get_limbs(call.in<std::uint64_t>(0).subspan(k * limb_words, limb_words));
    implementation(call.in<std::uint32_t>(1), errors, call.get<std::uint32_t>(2));
  };
}

void draw_channels(OpCall& call) {
  for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
    for (std::int64_t i = 0; i < call.numel(); ++i) {
      const PhiloxBlock w = call.words(operand, i);
      const std::uint64_t index = call.shape().first_index + static_cast<std::uint64_t>(i);
      auto bits =
          std::bit_cast<std::uint32_t>(fill_value(call.shape().fill, Content::weight, index, w));
      if (w[3] % 8U == 0) bits = 0x2FFFFFFFU + w[2] % 3U;  // around 2^-31
      call.get<std::uint32_t>(operand)[i] = bits & 0x7FFFFFFFU;
    }
  }
}

constexpr double smooth_alphas[] = {1, 0.5, 0, 0.3, 1.5};

OpFunction run_smooth(SmoothScalesFn* implementation) {
  return [implementation](OpCall& call) {
    std::vector<float> scale(call.numel(), 0.0F);
    call.get<std::uint32_t>(3)[0] = refused([&] {
      implementation(call.exec, smooth_alphas[call.variant()], call.in<std::uint32_t>(0),
                     call.in<std::uint32_t>(1), Span<float>(scale));
    });
    std::ranges::copy(scale, call.get<float>(2).begin());
  };
}

}  // namespace

OpFunction calls_of_percentile_amax(PercentileAmaxFn* implementation) {
  return run_percentile(implementation);
}
OpFunction calls_of_entropy_amax(EntropyAmaxFn* implementation) {
  return run_entropy(implementation);
}
OpFunction calls_of_smooth_scales(SmoothScalesFn* implementation) {
  return run_smooth(implementation);
}

std::vector<Op> calibration_ops() {
  Op percentile;
  percentile.name = "percentile_amax";
  percentile.contract = "calibration.hpp";
  percentile.type = "PercentileAmaxFn";
  percentile.variants = {"99.99", "100", "50", "0", "99.9", "refused counts", "refused percentile"};
  percentile.operands = {fixed(output("amax"), 1), fixed(output("refused", DType::u32), 1)};
  percentile.fills = {Fill::sweep};
  percentile.largest = 4097;
  percentile.one_result = "it counts, and multiplies once";
  percentile.reference = run_percentile(reference::percentile_amax);
  percentile.host = run_percentile(cuda::host::percentile_amax);
  percentile.device = run_percentile(on_device<cuda::device::percentile_amax>);

  Op entropy = percentile;
  entropy.name = "entropy_amax";
  entropy.type = "EntropyAmaxFn";
  entropy.exactness = Exactness::ordered;
  entropy.variants = {"8 bits", "4 bits", "2 bits", "refused counts", "refused bits"};
  entropy.largest = 300;
  entropy.one_result = {};
  entropy.reference = run_entropy(reference::entropy_amax);
  entropy.host = run_entropy(cuda::host::entropy_amax);
  entropy.device = run_entropy(on_device<cuda::device::entropy_amax>);

  Op errors = percentile;
  errors.name = "clip_errors";
  errors.type = "ClipErrorsFn";
  errors.exactness = Exactness::integer;
  errors.variants = {"int8", "int4 onto limbs", "e4m3", "e5m2", "refused"};
  errors.operands = {input("values", Content::weight),
                     fixed(output("errors", DType::u64), clip_words),
                     fixed(output("refused", DType::u32), 1)};
  errors.fills = number_fills();
  errors.largest = 1500;
  errors.one_result = "it adds integers";
  errors.reference = run_clip_errors(reference::clip_errors, reference::grad_norm_normalise);
  errors.host = run_clip_errors(cuda::host::clip_errors, cuda::host::grad_norm_normalise);
  errors.device =
      run_clip_errors(on_device<cuda::device::clip_errors>, cuda::device::grad_norm_normalise);

  Op choice = percentile;
  choice.name = "clip_of_errors";
  choice.type = "ClipOfErrorsFn";
  choice.variants = {"plain"};
  choice.operands = {per_element(input("errors", Content::given, DType::u64),
                                 num_clips * static_cast<std::int64_t>(limb_words)),
                     input("amax", Content::given, DType::u32), output("clipped", DType::u32)};
  choice.largest = 100;
  choice.generate = draw_clip_limbs;
  choice.one_result = "it compares, and multiplies once";
  choice.reference = run_clip_of_errors(reference::clip_of_errors);
  choice.host = run_clip_of_errors(cuda::host::clip_of_errors);
  choice.device = run_clip_of_errors(on_device<cuda::device::clip_of_errors>);

  Op smooth = percentile;
  smooth.name = "smooth_scales";
  smooth.type = "SmoothScalesFn";
  smooth.variants = {"alpha 1", "alpha 0.5", "alpha 0", "alpha 0.3", "refused"};
  smooth.operands = {input("input_amax", Content::given, DType::u32),
                     input("weight_amax", Content::given, DType::u32), output("scale"),
                     fixed(output("refused", DType::u32), 1)};
  smooth.fills = number_fills();
  smooth.generate = draw_channels;
  smooth.one_result = "every operation has one order";
  smooth.reference = run_smooth(reference::smooth_scales);
  smooth.host = run_smooth(cuda::host::smooth_scales);
  smooth.device = run_smooth(on_device<cuda::device::smooth_scales>);
  return {percentile, entropy, errors, choice, smooth};
}

}  // namespace zeroproof::verification
