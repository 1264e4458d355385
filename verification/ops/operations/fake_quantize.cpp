// Fake quantization: integers of several sizes and fp8, with one amax for a tensor, a row, a column or a few elements.

#include <algorithm>
#include <bit>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t all_of_them = std::int64_t{1} << 40;  // a block longer than the tensor

/// A tensor of `columns`, of which a call has the elements from `first` on.
struct FakeCut {
  const char* name;
  std::int64_t columns, first, block_rows, block_columns;
  FakeFormat format = FakeFormat::integer;
  int bits = 8;
  bool narrow = true;
};

constexpr FakeCut fake_cuts[] = {
    {"int8", 31, 5, all_of_them, all_of_them},
    {"int8 of rows", 97, 0, 1, all_of_them},
    {"int8 of columns, from the middle", 70, 33, all_of_them, 1},
    {"int4, one code more below", 64, 11, 1, 32, FakeFormat::integer, 4, false},
    {"int2", 33, 0, 1, all_of_them, FakeFormat::integer, 2},
    {"int8, one code more below", 40, 1, 2, 7, FakeFormat::integer, 8, false},
    {"int16", 70, 0, 1, all_of_them, FakeFormat::integer, 16, false},
    {"e4m3", 31, 5, all_of_them, all_of_them, FakeFormat::e4m3},
    {"e4m3 of rows, in place", 97, 3, 1, all_of_them, FakeFormat::e4m3},
    {"e5m2 of columns", 70, 0, all_of_them, 1, FakeFormat::e5m2},
    {"int8 in place", 31, 0, 1, all_of_them},
    {"refused", 70, 0, 1, 32}};
constexpr int refused_fake_cut = static_cast<int>(std::size(fake_cuts)) - 1;

/// Arguments of a call: legal, or with one error.
struct FakeCall {
  FakeQuantization options;
  std::int64_t first = 0;
  std::vector<std::uint32_t> amax;
  bool in_place = false;
};

/// An amax is mostly that of the block's elements, or half of it; some are tiny, some of any bits.
FakeCall fake_call(const OpCall& call) {
  const FakeCut& cut = fake_cuts[call.variant()];
  const std::int64_t rows = (cut.first + call.numel() + cut.columns - 1) / cut.columns + 1;
  FakeCall made{
      {{rows, cut.columns, cut.block_rows, cut.block_columns}, cut.format, cut.bits, cut.narrow},
      cut.first,
      {},
      std::string_view(cut.name).ends_with("in place")};
  const BlockGrid grid = made.options.grid;
  made.amax.resize(grid.num_blocks());
  reference::block_amax({}, grid, QuantizedValue::direct, cut.first, call.in<float>(0), made.amax);
  for (std::size_t b = 0; b < made.amax.size(); ++b) {
    const PhiloxBlock w = call.words(7, static_cast<std::int64_t>(b));
    if (w[0] % 4U == 1 && made.amax[b] > 0x00800000U) made.amax[b] -= 0x00800000U;
    if (w[0] % 16U == 2) made.amax[b] = w[1] % 0x34000000U;
    if (w[0] % 16U == 3) made.amax[b] = w[1];
    if (w[0] % 16U == 6) made.amax[b] = 0x33800000U + w[1] % 2U;  // 2^-24, and the next one
  }
  if (call.variant() != refused_fake_cut) return made;
  switch (call.numel() % 6) {
    case 0:
      made.options.grid.block_rows = 0;
      break;
    case 1:
      made.options.bits = 1;
      break;
    case 2:
      made.options.bits = 17;
      break;
    case 3:
      made.first = -1;
      break;
    case 4:
      made.first = grid.numel() - call.numel() + 1;
      break;
    default:
      made.amax.pop_back();
  }
  return made;
}

OpFunction run_fake_quantize(FakeQuantizeFn* implementation) {
  return [implementation](OpCall& call) {
    const FakeCall made = fake_call(call);
    const Span<float> target = call.get<float>(1);
    std::ranges::fill(target, 0.0F);
    Span<const float> values = call.in<float>(0);
    if (made.in_place) {
      std::ranges::copy(values, target.begin());
      values = target;
    }
    call.get<std::uint32_t>(2)[0] = refused(
        [&] { implementation(call.exec, made.options, made.first, values, made.amax, target); });
  };
}

/// Codes as their 32 bits; integers of 16 bits and fp8 are refused too.
OpFunction run_quantize_integer(QuantizeIntegerFn* implementation) {
  return [implementation](OpCall& call) {
    const FakeCall made = fake_call(call);
    std::vector<std::int8_t> codes(call.numel(), 0);
    call.get<std::uint32_t>(2)[0] = refused([&] {
      implementation(call.exec, made.options, made.first, call.in<float>(0), made.amax,
                     Span<std::int8_t>(codes));
    });
    std::ranges::transform(codes, call.get<std::uint32_t>(1).begin(), [](std::int8_t code) {
      return static_cast<std::uint32_t>(std::int32_t{code});
    });
  };
}

}  // namespace

OpFunction calls_of_fake_quantize(FakeQuantizeFn* implementation) {
  return run_fake_quantize(implementation);
}

std::vector<Op> fake_quantize_ops() {
  Op fake;
  fake.name = "fake_quantize";
  fake.contract = "fake_quantize.hpp";
  fake.type = "FakeQuantizeFn";
  for (const FakeCut& cut : fake_cuts) fake.variants.emplace_back(cut.name);
  fake.operands = {input("values", Content::weight), output("target"),
                   fixed(output("refused", DType::u32), 1)};
  fake.fills = number_fills();
  fake.fills.push_back(Fill::patterns);
  fake.one_result = "every operation has one order";
  fake.reference = run_fake_quantize(reference::fake_quantize);
  fake.host = run_fake_quantize(cuda::host::fake_quantize);
  fake.device = run_fake_quantize(on_device<cuda::device::fake_quantize>);

  Op codes = fake;
  codes.name = "quantize_integer";
  codes.type = "QuantizeIntegerFn";
  codes.exactness = Exactness::integer;
  codes.operands[1] = output("codes", DType::u32);
  codes.reference = run_quantize_integer(reference::quantize_integer);
  codes.host = run_quantize_integer(cuda::host::quantize_integer);
  codes.device = run_quantize_integer(on_device<cuda::device::quantize_integer>);
  return {fake, codes};
}

}  // namespace zeroproof::verification
