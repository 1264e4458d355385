#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/formats/fake_element.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/formats/calibration_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

template <class Element>
struct FakeQuantize {
  static constexpr int pack_numel = 1;
  PartBlocks blocks;
  Element element;
  const std::uint32_t* amax;  // [num_blocks]
  const float* values;        // [numel]
  float* target;              // [numel]

  ZP_DEVICE void one(std::int64_t i) const {
    target[i] = element(amax_with_one_nan(amax[blocks.of(i)]), values[i]);
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

struct IntegerCode {
  static constexpr int pack_numel = 1;
  PartBlocks blocks;
  Integers integers;
  const std::uint32_t* amax;  // [num_blocks]
  const float* values;        // [numel]
  std::int8_t* codes;         // [numel]

  ZP_DEVICE void one(std::int64_t i) const {
    const std::uint32_t bits = amax_with_one_nan(amax[blocks.of(i)]);
    int code = 0;
    if (bits > smallest_amax_bits) {
      const float r = integers.code(values[i], integers.top / float_of(bits));
      if ((bits_of(r) & ~sign_bit) <= infinite_amax) code = static_cast<int>(r);
    }
    codes[i] = static_cast<std::int8_t>(code);
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

}  // namespace

void fake_quantize(const Exec&, const FakeQuantization& options, std::int64_t first,
                   Span<const float> values, Span<const std::uint32_t> amax, Span<float> target) {
  require_same_numel("values", values, "target", target);
  require_fake_quantization("fake_quantize", options, first, values.size(), amax.size());
  if (values.empty()) return;
  with_fake_element(options, [&]<class Element>(const Element& element) {
    const FakeQuantize<Element> operation{PartBlocks(options.grid, first), element, amax.data(),
                                          values.data(), target.data()};
    run_elementwise(operation, numel(values));
  });
}

void quantize_integer(const Exec&, const FakeQuantization& options, std::int64_t first,
                      Span<const float> values, Span<const std::uint32_t> amax,
                      Span<std::int8_t> codes) {
  require_same_numel("values", values, "codes", codes);
  require_fake_quantization("quantize_integer", options, first, values.size(), amax.size());
  require_integer_codes(options);
  if (values.empty()) return;
  run_elementwise(IntegerCode{PartBlocks(options.grid, first), Integers(options), amax.data(),
                              values.data(), codes.data()},
                  numel(values));
}

}  // namespace zeroproof::cuda::device
