#include <array>
#include <cstring>
#include <limits>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t hyper_words =
    9;  // lr, beta1, beta2, eps, weight_decay, momentum, dampening, max_norm, clip_value
constexpr std::size_t count_words = 4;  // t, log2_loss_scale, divisor, flags
constexpr std::size_t scalar_words = num_step_scalar_words;
static_assert(sizeof(StepScalars) == 4 * scalar_words);

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <std::size_t N>
double pick(const std::array<double, N>& values, std::uint32_t word) {
  return values[(word >> 3) % N];
}

/// Ordinary settings three times in four; otherwise one of them is near the end of its range or
/// outside.
void draw_hyper(Span<double> h, const PhiloxBlock& a, const PhiloxBlock& b, const PhiloxBlock& c) {
  h[0] = static_cast<double>(1 + a[0] % 100000U) * 1e-7;
  h[1] = 0.5 + (a[1] % 4999U) * 1e-4;
  h[2] = ((a[2] >> 16) % 4U == 0 ? 0.0 : 0.5) + (a[2] % 4999U) * 1e-4;  // one in four below a half
  h[3] = 1e-8 * (1 + b[0] % 10U);
  h[4] = (b[1] % 3U) * 0.05;
  h[5] = b[2] % 2U == 0 ? 0.0 : (b[2] >> 1) % 10U * 0.1;
  h[6] = h[5] > 0 && b[3] % 4U == 0 ? 0.3 : 0.0;
  h[7] = (c[0] % 4U) * 0.5;
  h[8] = 0.1 * (1 + c[1] % 5U);
  if (a[3] % 4U != 0) return;
  switch (c[2] % 9U) {
    case 0:
      h[0] = pick(std::array{0.0, 1.0, 1e300, -1e-3, -0.0, inf, nan}, c[3]);
      break;
    case 1:
      h[1] = pick(std::array{0.0, 0.99999988, 1.0, -0.1, nan}, c[3]);
      break;
    case 2:
      h[2] = pick(std::array{0.0, 0.99999988, 1.0, -0.1, nan, 0x1p-149, 0.49999997}, c[3]);
      break;
    case 3:
      h[3] = pick(std::array{0x1p-126, 0x1.fffffep-127, 1e-45, 0.0, -1.0, 1e300, nan}, c[3]);
      break;
    case 4:
      h[4] = pick(std::array{-0.01, inf, 1e300, nan, 0x1p-1074}, c[3]);
      break;
    case 5:
      h[5] = pick(std::array{1.0, 1.1, -0.1, 0x1p-1074, nan}, c[3]);
      break;
    case 6:
      h[6] = pick(std::array{1.0, 0.5, -0.1, 1.5, nan}, c[3]);
      break;
    case 7:
      h[7] = pick(std::array{-0.0, -1.0, inf, 1e300, nan}, c[3]);
      break;
    default:
      h[8] = pick(std::array{0.0, -1.0, inf, 1e300, 1e-46, 1e-45, nan}, c[3]);
  }
}

void draw_counts(Span<std::uint64_t> c, const PhiloxBlock& a, const PhiloxBlock& b) {
  constexpr std::array<std::uint64_t, 5> steps = {1, 0, ~std::uint64_t{0}, 1000000, 4294967296U};
  constexpr std::array<std::uint64_t, 4> divisors = {0, 1, (std::uint64_t{1} << 53) - 1,
                                                     std::uint64_t{1} << 53};
  const bool odd = a[3] % 4U == 0;
  c[0] = odd ? steps[a[0] % steps.size()] : 1U + a[0] % (a[3] % 8U == 1 ? 2U : 3000U);
  c[1] = static_cast<std::uint64_t>(static_cast<std::int64_t>(odd ? a[1] % 400U : a[1] % 40U) -
                                    (odd ? 200 : 4));
  c[2] = odd ? divisors[a[2] % divisors.size()] : 1U + a[2] % 5000U;
  c[3] = b[0];
}

void draw_settings(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    draw_hyper(call.get<double>(0).subspan(at * hyper_words, hyper_words), call.words(0, i),
               call.words(0, i, 1), call.words(0, i, 2));
    draw_counts(call.get<std::uint64_t>(1).subspan(at * count_words, count_words), call.words(1, i),
                call.words(1, i, 1));
  }
}

/// The rule and the options that mostly belong to it: one in thirty-two has options of another rule.
OptimizerHyper hyper_from(Span<const double> h, std::uint64_t flags) {
  OptimizerHyper hyper;
  hyper.rule = update_rules[flags % update_rules.size()].rule;
  const bool stray =
      flags >> 2 & 1U && flags >> 3 & 1U && flags >> 4 & 1U && flags >> 5 & 1U && flags >> 6 & 1U;
  const RuleTraits& rule = traits_of(hyper.rule);
  hyper.lr = h[0];
  hyper.beta1 = static_cast<float>(h[1]);
  hyper.beta2 = static_cast<float>(h[2]);
  hyper.eps = h[3];
  hyper.weight_decay = h[4];
  hyper.bias_correction = (flags >> 7 & 3U) != 0;
  hyper.amsgrad = (rule.amsgrad() || stray) && (flags >> 9 & 1U) != 0;
  hyper.maximize = (flags >> 10 & 1U) != 0;
  if (rule.momentum() || stray) {
    hyper.momentum = h[5];
    hyper.dampening = h[6];
    hyper.nesterov =
        (flags >> 11 & 1U) != 0 && (stray || (hyper.momentum > 0 && hyper.dampening == 0));
  }
  if ((flags >> 12 & 1U) != 0) hyper.max_norm = h[7];
  if ((flags >> 13 & 1U) != 0) hyper.clip_value = h[8];
  return hyper;
}

OpFunction run(StepScalarsFn* implementation) {
  return [implementation](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const Span<const std::uint64_t> c =
          call.in<std::uint64_t>(1).subspan(i * count_words, count_words);
      const OptimizerHyper hyper =
          hyper_from(call.in<double>(0).subspan(i * hyper_words, hyper_words), c[3]);
      StepScalars scalars{};
      call.get<std::uint32_t>(3)[i] = refused([&] {
        scalars = implementation(hyper, static_cast<std::int64_t>(c[0]),
                                 static_cast<int>(static_cast<std::int64_t>(c[1])),
                                 static_cast<std::int64_t>(c[2]));
      });
      // As words: the two flags are integers, and no scalar of legal settings is NaN.
      std::memcpy(call.get<std::uint32_t>(2).data() + i * scalar_words, &scalars, sizeof(scalars));
    }
  };
}

}  // namespace

std::vector<Op> step_scalars_ops() {
  Op op;
  op.name = "step_scalars";
  op.contract = "step_scalars.hpp";
  op.type = "StepScalarsFn";
  op.phases = {Phase::prepare};
  op.operands = {per_element(input("hyper", Content::given, DType::fp64), hyper_words),
                 per_element(input("counts", Content::given, DType::u64), count_words),
                 per_element(output("scalars", DType::u32), scalar_words),
                 output("refused", DType::u32)};
  op.fills = {Fill::sweep};
  op.generate = draw_settings;
  op.reference = run(reference::step_scalars);
  op.host = run(cuda::host::step_scalars);
  op.device = run(cuda::device::step_scalars);
  return {op};
}

}  // namespace zeroproof::verification
