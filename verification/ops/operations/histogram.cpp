// Histograms of magnitudes: widths that are powers of two and others, ends open and closed, bins that are joined.

#include <algorithm>
#include <bit>
#include <cmath>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t histogram_bins[] = {2048, 256, 300, 2048, 777, 512, 256, 2048};
constexpr std::int64_t widest_count = 2048 + histogram_extra;

/// The width for the call's own magnitudes, or by the variant one that differs by a power of two,
/// or any bits.
float drawn_width(const OpCall& call) {
  std::uint32_t amax = 0;
  for (const float value : call.in<float>(0)) {
    if (std::isfinite(value)) reference::grad_max_accumulate({}, {&value, 1}, amax);
  }
  const std::int64_t bins = histogram_bins[call.variant()];
  const float fits = std::ldexp(1.0F, std::min(reference::histogram_exponent(amax, bins), 127));
  const std::uint32_t any = call.words(7, 0)[0];
  switch (call.variant()) {
    case 2:
      return std::max(fits / 8, 0x1p-149F);  // most are past the last bin
    case 3:
      return std::max(static_cast<float>(static_cast<double>(std::bit_cast<float>(amax)) / 2048),
                      0x1p-149F);
    case 4:
      return std::bit_cast<float>(std::max(any % 0x7F800000U, 1U));
    case 5:
      return 0x1p-149F;
    case 6:
      return std::min(fits * 0x1.8p4F, 0x1p127F);
    default:
      return fits;
  }
}

OpFunction run_histogram_count(HistogramCountFn* implementation) {
  return [implementation](OpCall& call) {
    const std::int64_t bins = histogram_bins[call.variant()];
    const bool closed = call.variant() == 3 || call.variant() == 4;
    float width = drawn_width(call);
    std::vector<std::uint64_t> count(bins + histogram_extra);
    for (std::size_t k = 0; k < count.size(); ++k) {
      const PhiloxBlock w = call.words(8, static_cast<std::int64_t>(k));
      count[k] = w[0] % 3U == 0 ? w[1] : 0;
    }
    if (call.variant() == 7) {
      const float wrong[] = {0.0F, -1.0F, INFINITY, NAN};
      if (call.numel() % 5 < 4) width = wrong[call.numel() % 5];
      if (call.numel() % 5 == 4) count.resize(fewest_bins + histogram_extra - 1);
    }
    call.get<std::uint32_t>(2)[0] = refused([&] {
      implementation(call.exec, width, closed ? HistogramEnd::closed : HistogramEnd::open,
                     call.in<float>(0), count);
    });
    std::ranges::fill(call.get<std::uint64_t>(1), 0U);
    std::ranges::copy(count, call.get<std::uint64_t>(1).begin());
  };
}

constexpr int histogram_doublings[] = {1, 0, 2, 7, 40, -1};
constexpr std::int64_t most_widened = 4097;

/// The number of bins is that of a call's elements, and 256 more.
OpFunction run_histogram_widen(HistogramWidenFn* implementation) {
  return [implementation](OpCall& call) {
    std::vector<std::uint64_t> count(fewest_bins + call.numel() + histogram_extra);
    for (std::size_t k = 0; k < count.size(); ++k) {
      const PhiloxBlock w = call.words(0, static_cast<std::int64_t>(k));
      count[k] = w[0] % 2U == 0 ? std::uint64_t{w[1]} << w[2] % 16U : 0;
    }
    call.get<std::uint32_t>(1)[0] =
        refused([&] { implementation(call.exec, histogram_doublings[call.variant()], count); });
    std::ranges::fill(call.get<std::uint64_t>(0), 0U);
    std::ranges::copy(count, call.get<std::uint64_t>(0).begin());
  };
}

constexpr std::int64_t exponent_bins[] = {2048, 256, 300, 65536, 255};

/// A refused call has an exponent that no number has.
OpFunction run_histogram_exponent(HistogramExponentFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      int exponent = 0;
      const bool wrong =
          refused([&] {
            exponent = implementation(call.in<std::uint32_t>(0)[i], exponent_bins[call.variant()]);
          }) != 0U;
      call.get<std::uint32_t>(1)[i] = wrong ? 0x80000000U : static_cast<std::uint32_t>(exponent);
    }
  };
}

/// Three of four are at an edge of the bins, `bins * 2^w`, just below or just above, for every w:
/// the exponent changes nowhere else. A call has one number, and needs a launch on a device, so
/// there are few of them.
void draw_histogram_amax(OpCall& call) {
  constexpr std::uint64_t every_width = 277;  // 2^-149 .. 2^127
  const auto bins = static_cast<double>(exponent_bins[call.variant()]);
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const PhiloxBlock w = call.words(0, i);
    const std::uint64_t index = call.shape().first_index + static_cast<std::uint64_t>(i);
    auto bits =
        std::bit_cast<std::uint32_t>(fill_value(call.shape().fill, Content::value, index, w)) &
        0x7FFFFFFFU;
    if (w[3] % 4U != 0) {
      const double edge = std::ldexp(bins, static_cast<int>(index % every_width) - 149);
      const auto aside = static_cast<std::uint32_t>(index / every_width %
                                                    3U);  // the number before, itself, the next
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(edge)) + aside - 1U;
    }
    call.get<std::uint32_t>(0)[i] = bits;
  }
}

}  // namespace

OpFunction calls_of_histogram_count(HistogramCountFn* implementation) {
  return run_histogram_count(implementation);
}
OpFunction calls_of_histogram_widen(HistogramWidenFn* implementation) {
  return run_histogram_widen(implementation);
}

std::vector<Op> histogram_ops() {
  Op count;
  count.name = "histogram_count";
  count.contract = "histogram.hpp";
  count.type = "HistogramCountFn";
  count.exactness = Exactness::integer;
  count.variants = {"2048 bins that fit",
                    "256 bins that fit",
                    "300 bins, an open end",
                    "appended, a closed end",
                    "a width of any bits, a closed end",
                    "the smallest width",
                    "wide bins, no power of two",
                    "refused"};
  count.operands = {input("values"), fixed(output("count", DType::u64), widest_count),
                    fixed(output("refused", DType::u32), 1)};
  count.fills = number_fills();
  count.fills.push_back(Fill::patterns);
  count.one_result = "it counts";
  count.reference = run_histogram_count(reference::histogram_count);
  count.host = run_histogram_count(cuda::host::histogram_count);
  count.device = run_histogram_count(on_device<cuda::device::histogram_count>);

  Op widen = count;
  widen.name = "histogram_widen";
  widen.type = "HistogramWidenFn";
  widen.variants = {"2 bins to one", "nothing",    "4 bins to one",
                    "128 to one",    "all to one", "refused"};
  widen.operands = {
      fixed(output("count", DType::u64), fewest_bins + most_widened + histogram_extra),
      fixed(output("refused", DType::u32), 1)};
  widen.fills = {Fill::sweep};
  widen.largest = most_widened;
  widen.reference = run_histogram_widen(reference::histogram_widen);
  widen.host = run_histogram_widen(cuda::host::histogram_widen);
  widen.device = run_histogram_widen(on_device<cuda::device::histogram_widen>);

  Op exponent = count;
  exponent.name = "histogram_exponent";
  exponent.type = "HistogramExponentFn";
  exponent.variants = {"2048 bins", "256 bins", "300 bins", "65536 bins", "refused"};
  exponent.operands = {input("amax", Content::given, DType::u32), output("exponent", DType::u32)};
  exponent.generate = draw_histogram_amax;
  exponent.largest = 300;
  exponent.one_result = "it compares integers";
  exponent.reference = run_histogram_exponent(reference::histogram_exponent);
  exponent.host = run_histogram_exponent(cuda::host::histogram_exponent);
  exponent.device = run_histogram_exponent(cuda::device::histogram_exponent);
  return {count, widen, exponent};
}

}  // namespace zeroproof::verification
