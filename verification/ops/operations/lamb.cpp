#include <algorithm>
#include <array>

#include "cuda/device/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "cuda/kernel_table.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/limb_words.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/operations/update_call_bounds.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t trust_words = 2 * limb_words;  // N_w, then N_u

/// Ratios of an update; the last one ascends.
constexpr std::array<float, 4> lamb_ratios = {0.37F, 1.0F, 0x1.8p40F, 0.9999F};

/// maximize is the only option, and the last of the forms has it.
UpdateSettings lamb_settings(int variant, std::size_t forms) {
  OptimizerHyper options;
  options.rule = UpdateRule::lamb;
  options.maximize = static_cast<std::size_t>(variant) % forms == forms - 1;
  return update_settings(variant / static_cast<int>(forms), options);
}

constexpr std::size_t lamb_norm_forms = 3;  // from zero, two pieces, onto something and maximize

/// Carries are free before normalisation, so the norms are compared after it.
OpFunction run_lamb_norms(LambNormsFn* implementation, GradNormNormaliseFn* normalise) {
  return [=](OpCall& call) {
    const UpdateSettings s = lamb_settings(call.variant(), lamb_norm_forms);
    const std::size_t form = static_cast<std::size_t>(call.variant()) % lamb_norm_forms;
    TrustNorms norms;
    norms.weight = norms.update = initial_limbs(form == 2 ? 1 : 0);
    const std::size_t numel = static_cast<std::size_t>(call.numel());
    const auto piece = [&](std::size_t begin, std::size_t count) {
      const auto part = [&](std::size_t operand) {
        return call.in<float>(operand).subspan(begin, count);
      };
      implementation(call.exec, {s.hyper.maximize}, s.scalars, part(0), part(1), part(2), part(3),
                     norms);
    };
    const std::size_t cut = form == 1 ? numel / 3 : 0;
    if (cut > 0) piece(0, cut);
    piece(cut, numel - cut);
    normalise(norms.weight);
    normalise(norms.update);
    const Span<std::uint64_t> words = call.get<std::uint64_t>(4);
    put_limbs(norms.weight, words.first(limb_words));
    put_limbs(norms.update, words.subspan(limb_words));
  };
}

Op lamb_norms_op() {
  Op op;
  op.name = "lamb_norms";
  op.contract = "lamb.hpp";
  op.type = "LambNormsFn";
  op.exactness = Exactness::integer;
  op.phases = {Phase::update};
  op.variants = update_variants({"from zero", "two pieces", "onto something, maximize"});
  op.operands = {input("grad"), input("master", Content::weight), input("exp_avg", Content::moment),
                 input("exp_avg_sq", Content::second_moment),
                 fixed(output("norms", DType::u64), trust_words)};
  op.fills = number_fills();
  op.largest = 8209;
  op.settings = [](const OpCall& call) {
    return described(lamb_settings(call.variant(), lamb_norm_forms));
  };
  op.reference = run_lamb_norms(reference::lamb_norms, reference::grad_norm_normalise);
  op.host = run_lamb_norms(cuda::host::lamb_norms, cuda::host::grad_norm_normalise);
  op.device = run_lamb_norms(on_device<cuda::device::lamb_norms>, cuda::host::grad_norm_normalise);
  op.host_of = [](const cuda::KernelTable& ops) {
    return run_lamb_norms(ops.lamb_norms, cuda::host::grad_norm_normalise);
  };
  return op;
}

/// Both norms of every element; one of them is zero for a quarter of the elements.
void draw_trust_norms(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const Span<std::uint64_t> words =
        call.get<std::uint64_t>(0).subspan(static_cast<std::size_t>(i) * trust_words, trust_words);
    draw_limb_set(call, i, 0, words.first(limb_words));
    draw_limb_set(call, i, limb_words + 1, words.subspan(limb_words));
    const std::uint32_t zero = call.words(1, i)[0] % 8U;
    if (zero < 2) std::ranges::fill(words.subspan(zero * limb_words, limb_words), 0U);
  }
}

OpFunction run_trust_ratio(LambTrustRatioFn* implementation) {
  return [implementation](OpCall& call) {
    const StepScalars scalars = lamb_settings(call.variant(), 1).scalars;
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const Span<const std::uint64_t> words =
          call.in<std::uint64_t>(0).subspan(i * trust_words, trust_words);
      call.get<float>(1)[i] = implementation(
          scalars, {get_limbs(words.first(limb_words)), get_limbs(words.subspan(limb_words))});
    }
  };
}

Op trust_ratio_op() {
  Op op;
  op.name = "lamb_trust_ratio";
  op.contract = "lamb.hpp";
  op.type = "LambTrustRatioFn";
  op.phases = {Phase::update};
  op.variants = update_set_names();
  op.operands = {per_element(input("norms", Content::given, DType::u64), trust_words),
                 output("trust_ratio")};
  op.fills = {Fill::sweep};
  op.largest = 4097;
  op.generate = draw_trust_norms;
  op.reference = run_trust_ratio(reference::lamb_trust_ratio);
  op.host = run_trust_ratio(cuda::host::lamb_trust_ratio);
  op.device = run_trust_ratio(cuda::device::lamb_trust_ratio);
  return op;
}

float ratio_of(const OpCall& call) {
  return lamb_ratios[static_cast<std::size_t>(call.variant()) % lamb_ratios.size()];
}

OpFunction run_lamb(LambUpdateFn* implementation) {
  return [implementation](OpCall& call) {
    const UpdateSettings s = lamb_settings(call.variant(), lamb_ratios.size());
    implementation(call.exec, {s.hyper.maximize}, s.scalars, ratio_of(call), call.in<float>(0),
                   call.get<float>(1), call.get<float>(2), call.get<float>(3));
  };
}

Op lamb_update_op() {
  Op op;
  op.name = "lamb_update";
  op.contract = "lamb.hpp";
  op.type = "LambUpdateFn";
  op.phases = {Phase::update};
  op.variants =
      update_variants({"ratio 0.37", "ratio 1", "ratio 1.5 * 2^40", "ratio 0.9999, maximize"});
  op.operands = {input("grad"), in_place("master", Content::weight),
                 in_place("exp_avg", Content::moment),
                 in_place("exp_avg_sq", Content::second_moment)};
  op.fills = number_fills();
  op.largest = 8209;
  op.settings = [](const OpCall& call) {
    std::vector<OpSetting> settings = described(lamb_settings(call.variant(), lamb_ratios.size()));
    settings.push_back({"trust_ratio", double{ratio_of(call)}});
    return settings;
  };
  op.corrects_bias = true;
  op.bounds = [](const OpCall& pristine, const OpCall&) {
    return update_call_bounds(lamb_settings(pristine.variant(), lamb_ratios.size()),
                              {.exp_avg = 2, .exp_avg_sq = 3}, pristine, ratio_of(pristine));
  };
  op.reference = run_lamb(reference::lamb_update);
  op.host = run_lamb(cuda::host::lamb_update);
  op.device = run_lamb(on_device<cuda::device::lamb_update>);
  op.host_of = [](const cuda::KernelTable& ops) { return run_lamb(ops.lamb_update); };
  return op;
}

}  // namespace

std::vector<Op> lamb_ops() { return {lamb_norms_op(), trust_ratio_op(), lamb_update_op()}; }

}  // namespace zeroproof::verification
