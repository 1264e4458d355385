#include <algorithm>
#include <array>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::uint32_t not_finite = 255;  // as top
constexpr std::int64_t most_per_leaf = (std::int64_t{1} << 24) - 1;

/// The fields of a sum as operands. Tops are in a buffer of an 8-bit format, so that writes outside of it are detected.
/// In that format 127 and 255 are both NaN, so tops are compared in an operand of their own [u32].
void add_fields(Op& op, Access access, const std::string& prefix = "") {
  const Content content = access == Access::out ? Content::value : Content::given;
  op.operands.push_back({prefix + "hi", DType::u32, access, content});
  op.operands.push_back({prefix + "lo", DType::u32, access, content});
  op.operands.push_back({prefix + "top_byte", DType::e4m3, access, content});
}

/// The sum whose fields begin at operand `first`.
BinnedSum sum_of(const OpCall& call, std::size_t first) {
  return {call.get<std::int32_t>(first), call.get<std::int32_t>(first + 1),
          call.get<std::uint8_t>(first + 2)};
}

/// Stores the tops; hi and lo of a non-finite element are unspecified, and not compared.
void report(const BinnedSum& sum, Span<std::uint32_t> top) {
  for (std::size_t i = 0; i < top.size(); ++i) {
    top[i] = sum.top[i];
    if (top[i] == not_finite) sum.hi[i] = sum.lo[i] = 0;
  }
}

struct Leaves {
  const char* name;
  std::size_t count;
  std::size_t repeated;  ///< how often each operand is added before the next one
};
constexpr std::array<Leaves, 4> leaf_sets = {{{"1 leaf", 1, 1},
                                              {"2 leaves", 2, 1},
                                              {"5 leaves", 5, 1},
                                              {"2 leaves, 64 times each", 128, 64}}};
constexpr std::size_t most_operands = 5;

OpFunction run_deposit(BinnedDepositFn* implementation) {
  return [implementation](OpCall& call) {
    const BinnedSum sum = sum_of(call, most_operands);
    std::fill(sum.hi.begin(), sum.hi.end(), 0);
    std::fill(sum.lo.begin(), sum.lo.end(), 0);
    std::fill(sum.top.begin(), sum.top.end(), std::uint8_t{0});
    const Leaves& leaves = leaf_sets[call.variant()];
    for (std::size_t j = 0; j < leaves.count; ++j) {
      implementation(call.exec, call.in<float>(j / leaves.repeated), sum);
    }
    report(sum, call.get<std::uint32_t>(most_operands + 3));
  };
}

OpFunction run_merge(BinnedMergeFn* implementation) {
  return [implementation](OpCall& call) {
    const BinnedSum into = sum_of(call, 3);
    implementation(call.exec, sum_of(call, 0), into);
    report(into, call.get<std::uint32_t>(6));
  };
}

OpFunction run_finish(BinnedFinishFn* implementation) {
  return [implementation](OpCall& call) {
    implementation(call.exec, sum_of(call, 0), call.get<float>(3));
  };
}

/// Any value of a field that `leaves` leaves can reach, of any length in bits.
std::int64_t draw_field(std::uint32_t word, std::uint32_t length, std::int64_t leaves) {
  const std::int64_t largest = leaves * most_per_leaf;
  const std::int64_t value = static_cast<std::int64_t>(word) % (2 * largest + 1) - largest;
  return value / (std::int64_t{1} << length % 31U);
}

void draw_fields(const PhiloxBlock& w, std::int64_t leaves, const BinnedSum& sum, std::size_t i) {
  const std::uint32_t top = w[0] % 12U;
  std::int64_t hi = draw_field(w[1], w[3], leaves);
  std::int64_t lo = draw_field(w[2], w[3] >> 8, leaves);
  // One bit below hi: where that is half a unit of the rounded value, finishing meets a tie.
  if (w[3] >> 16 & 1U) lo = (lo < 0 ? -1 : 1) * (std::int64_t{1} << w[2] % 24U);
  // Slightly more than a tie: rounding to fp64 first turns it into one.
  if ((w[3] >> 17) % 16U == 0) {
    hi = draw_field(w[1], 0, leaves) / 128 * 128 - 64;
    lo = lo < 0 ? -1 : 1;
  }
  if (top == 0) lo = 0;           // no bin is below bin 0
  if (top == 11) hi /= 1U << 11;  // the largest fp32 has 13 bits in the last bin
  sum.hi[i] = static_cast<std::int32_t>(hi);
  sum.lo[i] = static_cast<std::int32_t>(lo);
  sum.top[i] = static_cast<std::uint8_t>((w[0] >> 16) % 32U == 0 ? not_finite : top);
}

/// Fills the sum at operand `first`: fields drawn over the range of `leaves` leaves, or up to five
/// leaves of a fill of numbers, deposited by the reference.
void draw_sum(const OpCall& call, std::size_t first, std::int64_t leaves) {
  const BinnedSum sum = sum_of(call, first);
  for (std::size_t i = 0; i < sum.hi.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const PhiloxBlock w = call.words(first, index);
    if (call.shape().fill == Fill::sweep) {
      draw_fields(w, leaves, sum, i);
      continue;
    }
    const BinnedSum element{sum.hi.subspan(i, 1), sum.lo.subspan(i, 1), sum.top.subspan(i, 1)};
    sum.hi[i] = sum.lo[i] = sum.top[i] = 0;
    for (std::uint32_t j = 0; j <= w[0] % 5U; ++j) {
      const float leaf = fill_value(call.shape().fill, Content::value, call.shape().first_index + i,
                                    call.words(first, index, 1 + j));
      reference::binned_deposit(call.exec, {&leaf, 1}, element);
    }
  }
}

Op of_sums(const char* name, const char* type) {
  Op op;
  op.name = name;
  op.contract = "binned_sum.hpp";
  op.type = type;
  op.exactness = Exactness::integer;
  op.phases = {Phase::reduce};
  op.fills = number_fills();
  return op;
}

}  // namespace

std::vector<Op> binned_sum_ops() {
  Op deposit = of_sums("binned_deposit", "BinnedDepositFn");
  for (const Leaves& leaves : leaf_sets) deposit.variants.emplace_back(leaves.name);
  for (std::size_t j = 0; j < most_operands; ++j) {
    deposit.operands.push_back(input("leaf" + std::to_string(j)));
  }
  add_fields(deposit, Access::out);
  deposit.operands.push_back(output("top", DType::u32));
  deposit.reference = run_deposit(reference::binned_deposit);
  deposit.host = run_deposit(cuda::host::binned_deposit);
  deposit.device = run_deposit(on_device<cuda::device::binned_deposit>);

  Op merge = of_sums("binned_merge", "BinnedMergeFn");
  add_fields(merge, Access::in, "from_");
  add_fields(merge, Access::in_out);
  merge.operands.push_back(output("top", DType::u32));
  merge.fills.push_back(Fill::sweep);
  merge.generate = [](OpCall& call) {
    draw_sum(call, 0, binned_max_leaves / 2);
    draw_sum(call, 3, binned_max_leaves / 2);
  };
  merge.reference = run_merge(reference::binned_merge);
  merge.host = run_merge(cuda::host::binned_merge);
  merge.device = run_merge(on_device<cuda::device::binned_merge>);

  Op finish = of_sums("binned_finish", "BinnedFinishFn");
  finish.exactness = Exactness::bitwise;
  add_fields(finish, Access::in);
  finish.operands.push_back(output("result"));
  finish.fills.push_back(Fill::sweep);
  finish.generate = [](OpCall& call) { draw_sum(call, 0, binned_max_leaves); };
  finish.reference = run_finish(reference::binned_finish);
  finish.host = run_finish(cuda::host::binned_finish);
  finish.device = run_finish(on_device<cuda::device::binned_finish>);
  return {deposit, merge, finish};
}

}  // namespace zeroproof::verification
