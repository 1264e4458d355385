#include "tests/verification/interfaces/plugin/kernels/kernel_judge.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/base/float_formats.hpp"
#include "tests/support/paths.hpp"
#include "verification/compare/compare.hpp"
#include "verification/compare/hint_rules.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"

namespace zeroproof::tests {

using namespace verification;

std::shared_ptr<const OpCandidate> kernel(std::string_view library, std::string_view kind) {
  ::setenv("ZP_KERNEL", std::string(kind).c_str(), 1);  // for the process that is started now
  const std::string path = build_folder() + "/plugins/" + std::string(library) + ".so";
  auto plugin = std::make_shared<Plugin>(path, PluginLimits{}, build_folder() + "/zeroproof");
  ::unsetenv("ZP_KERNEL");
  return plugin_candidate(std::move(plugin));
}

std::string told(const Result& result) {
  std::string all = result.reason;
  if (!result.divergence) return all;
  const Divergence& d = *result.divergence;
  return all + "; " + d.call + "; " + d.hint + "; " + d.order;
}

namespace {

/// Mean 0 and variance 1, at the bits of the seed.
float normal(std::uint32_t operand, std::int64_t i) {
  return Philox(7, operand).bell(static_cast<std::uint64_t>(i));
}

/// A scaler as a program configures it, after i steps, an overflow in every tenth.
void fill_scaler(OpCall& call, std::int64_t i) {
  constexpr std::uint32_t config[] = {2, 16, 1, 1, 0, 24, 1000, 1, 0};
  const auto at = static_cast<std::size_t>(i);
  std::ranges::copy(config, call.get<std::uint32_t>(0).subspan(at * 9, 9).begin());
  const std::uint32_t state[] = {16, static_cast<std::uint32_t>(i), 1};
  std::ranges::copy(state, call.get<std::uint32_t>(1).subspan(at * 3, 3).begin());
  call.get<std::uint32_t>(2)[at] = i % 10 == 0 ? 1 : 0;
}

void fill_number(OpCall& call, const Operand& operand, std::size_t k, std::int64_t i) {
  const auto at = static_cast<std::size_t>(i);
  const float drawn = normal(static_cast<std::uint32_t>(k), i);
  switch (operand.dtype) {
    case DType::fp32:
      call.get<float>(k)[at] = operand.content == Content::moment          ? 0.1F * drawn
                               : operand.content == Content::second_moment ? 1e-3F * drawn * drawn
                                                                           : drawn;
      return;
    case DType::fp16:
      call.get<fp16>(k)[at] = to_fp16(drawn);
      return;
    case DType::fp64:
      call.get<double>(k)[at] = operand.name == "max_norm" ? 1 : std::fabs(drawn);
      return;
    case DType::u32:
      call.get<std::uint32_t>(k)[at] = 1;
      return;
    default:  // formats of 8 bits: all their numbers up to 16
      call.get<e4m3>(k)[at] = {static_cast<std::uint8_t>(i % 96 + (i % 2 == 0 ? 128 : 0))};
  }
}

/// Settings that a test has: a mean of three, a momentum, the 2-norm.
int usual_variant(const Op& op) {
  for (const char* name : {"scale 1/3", "typical momentum", "p 2"}) {
    const auto found = std::ranges::find(op.variants, name);
    if (found != op.variants.end()) return static_cast<int>(found - op.variants.begin());
  }
  return 0;
}

struct Tolerance {
  double rtol, atol;
};

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return {1e-7, 1e-7};
    case DType::fp32:
      return {1.3e-6, 1e-5};
    case DType::fp16:
      return {1e-3, 1e-5};
    case DType::bf16:
      return {1.6e-2, 1e-5};
    default:
      return {0, 0};
  }
}

bool within(const TensorView& want, const TensorView& got, const Tolerance& tolerance) {
  for (std::int64_t i = 0; i < want.numel; ++i) {
    const double w = number(want.dtype, element_bits(want, i)), g = number(got.dtype, element_bits(got, i));
    if (!(std::fabs(g - w) <= tolerance.atol + tolerance.rtol * std::fabs(w))) return false;
  }
  return true;
}

}  // namespace

Closeness closeness(const Op& op, const OpCandidate& candidate) {
  OpCall call(op, {.fill = Fill::training, .numel = 1024, .variant = usual_variant(op)});
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    if (op.name == "loss_scaler_update") {
      fill_scaler(call, i);
      continue;
    }
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      if (op.operands[k].access != Access::out) fill_number(call, op.operands[k], k, i);
    }
  }
  OpCall got = call.fresh(), want = call.fresh();
  candidate.function(op, "")(got);
  op.reference(want);
  Closeness result{true, true};
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (op.operands[k].access == Access::in) continue;
    result.allclose = result.allclose && within(want.view(k), got.view(k), {1e-5, 1e-8});
    result.assert_close =
        result.assert_close && within(want.view(k), got.view(k), tolerance_of(op.operands[k].dtype));
  }
  return result;
}

}  // namespace zeroproof::tests
