#include <array>
#include <cstring>
#include <limits>

#include "cuda/host/step_scalars.hpp"
#include "reference/step_scalars.hpp"
#include "verification/ops/families.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t hyper_words = 5;  // lr, beta1, beta2, eps, weight_decay
constexpr std::size_t count_words = 4;  // t, log2_loss_scale, divisor, flags
constexpr std::size_t scalar_words = sizeof(StepScalars) / 4;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// One of a few values that matter, most often an ordinary one.
template <std::size_t N>
double pick(const std::array<double, N>& values, std::uint32_t word) {
  return values[(word >> 3) % N];
}

void draw_hyper(Span<double> h, const PhiloxBlock& a, const PhiloxBlock& b) {
  const bool odd = a[3] % 4U == 0;  // one in four leaves the ranges somewhere or comes near their ends
  h[0] = odd ? pick(std::array{0.0, 1e-3, 1.0, 1e300, -1e-3, inf, nan}, a[0])
             : static_cast<double>(1 + a[0] % 100000U) * 1e-7;
  h[1] = odd ? pick(std::array{0.0, 0.9, 0.99999988, 1.0, -0.1, nan}, a[1]) : 0.5 + (a[1] % 4999U) * 1e-4;
  h[2] = odd ? pick(std::array{0.5, 0.95, 0.99999988, 0.49, 1.0, nan}, a[2]) : 0.5 + (a[2] % 4999U) * 1e-4;
  h[3] = odd ? pick(std::array{0x1p-126, 1e-8, 1e-45, 0.0, -1.0, 1e300, nan}, b[0]) : 1e-8 * (1 + b[0] % 10U);
  h[4] = odd ? pick(std::array{0.0, 0.01, -0.01, inf, 1e300}, b[1]) : (b[1] % 3U) * 0.05;
}

void draw_counts(Span<std::uint64_t> c, const PhiloxBlock& a, const PhiloxBlock& b) {
  const bool odd = a[3] % 4U == 0;
  c[0] = odd ? std::array<std::uint64_t, 5>{1, 0, ~std::uint64_t{0}, 1000000, 4294967296U}[a[0] % 5U]
             : 1U + a[0] % 3000U;
  c[1] =
      static_cast<std::uint64_t>(static_cast<std::int64_t>(odd ? a[1] % 400U : a[1] % 40U) - (odd ? 200 : 4));
  c[2] = odd ? std::array<std::uint64_t, 4>{0, 1, (std::uint64_t{1} << 53) - 1,
                                            std::uint64_t{1} << 53}[a[2] % 4U]
             : 1U + a[2] % 5000U;
  c[3] = b[0];
}

void draw(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    draw_hyper(call.get<double>(0).subspan(at * hyper_words, hyper_words), call.words(0, i),
               call.words(0, i, 1));
    draw_counts(call.get<std::uint64_t>(1).subspan(at * count_words, count_words), call.words(1, i),
                call.words(1, i, 1));
  }
}

AdamwHyper hyper_from(Span<const double> h, std::uint64_t flags) {
  AdamwHyper hyper;
  hyper.lr = h[0];
  hyper.beta1 = static_cast<float>(h[1]);
  hyper.beta2 = static_cast<float>(h[2]);
  hyper.eps = h[3];
  hyper.weight_decay = h[4];
  hyper.bias_correction = flags % 4U != 0;
  return hyper;
}

OpFunction run(StepScalarsFn* twin) {
  return [twin](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      const Span<const std::uint64_t> c = call.in<std::uint64_t>(1).subspan(i * count_words, count_words);
      const AdamwHyper hyper = hyper_from(call.in<double>(0).subspan(i * hyper_words, hyper_words), c[3]);
      StepScalars scalars{};
      call.get<std::uint32_t>(3)[i] = refused([&] {
        scalars = twin(hyper, static_cast<std::int64_t>(c[0]),
                       static_cast<int>(static_cast<std::int64_t>(c[1])), static_cast<std::int64_t>(c[2]));
      });
      // A NaN among the scalars would be one value to the contract, and is none of its results.
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
                 per_element(output("scalars", DType::u32), scalar_words), output("refused", DType::u32)};
  op.fills = {Fill::sweep};
  op.generate = draw;
  op.reference = run(reference::step_scalars);
  op.host = run(cuda::host::step_scalars);
  return {op};
}

}  // namespace zeroproof::verification
