#include <cmath>
#include <string>

#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/base/single.cuh"
#include "cuda/device/kernels/update/muon_element.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

struct MuonMomentum {
  static constexpr int pack_numel = 4;
  StepScalars scalars;
  std::uint32_t sign_mask;  // the sign bit for maximize
  bool nesterov;
  const float* grad;  // [numel], as the two below; direction may be the same memory
  float* exp_avg;
  float* direction;

  ZP_DEVICE MuonMoved next(float g, float old) const {
    return muon_momentum_element(scalars, nesterov, flip_sign(g, sign_mask), old);
  }

  ZP_DEVICE void one(std::int64_t i) const {
    const MuonMoved moved = next(grad[i], exp_avg[i]);
    exp_avg[i] = moved.exp_avg;
    direction[i] = moved.direction;
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    Pack<float> g = load_pack(grad + i);
    Pack<float> m = load_pack(exp_avg + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      const MuonMoved moved = next(g.v[k], m.v[k]);
      m.v[k] = moved.exp_avg;
      g.v[k] = moved.direction;
    }
    store_pack(exp_avg + i, m);
    store_pack(direction + i, g);
  }
};

struct MuonUpdate {
  static constexpr int pack_numel = 4;
  StepScalars scalars;
  float step_size;
  const float* orthogonal;  // [numel], as the one below
  float* master;

  ZP_DEVICE void one(std::int64_t i) const {
    master[i] = muon_element(scalars, step_size, orthogonal[i], master[i]);
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<float> o = load_pack(orthogonal + i);
    Pack<float> w = load_pack(master + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) w.v[k] = muon_element(scalars, step_size, o.v[k], w.v[k]);
    store_pack(master + i, w);
  }
};

struct MuonStepSize {
  MuonScale scale;
  double scale_factor;
  float lr;
  std::int64_t rows, columns;

  ZP_DEVICE float operator()() const {
    return muon_step_size_of(lr, scale_factor * muon_scale_of(scale, rows, columns));
  }
};

}  // namespace

void muon_momentum(const Exec&, const MuonMomentumOptions& options, const StepScalars& scalars,
                   Span<const float> grad, Span<float> exp_avg, Span<float> direction) {
  require_same_numel("grad", grad, "exp_avg", exp_avg);
  require_same_numel("grad", grad, "direction", direction);
  if (grad.empty()) return;
  const MuonMomentum momentum{scalars,          options.maximize ? sign_bit : 0U,
                              options.nesterov, grad.data(),
                              exp_avg.data(),   direction.data()};
  run_elementwise(momentum, numel(grad), momentum.grad, momentum.exp_avg, momentum.direction);
}

float muon_step_size(const MuonSettings& settings, const StepScalars& scalars, std::int64_t rows,
                     std::int64_t columns) {
  ZP_CHECK(std::isfinite(settings.scale_factor) && settings.scale_factor > 0,
           ErrorCode::invalid_argument, "scale_factor is " + std::to_string(settings.scale_factor),
           "it multiplies every update", "use a finite number above 0");
  ZP_CHECK(
      rows >= 1 && columns >= 1, ErrorCode::invalid_argument,
      "a matrix has " + std::to_string(rows) + " rows and " + std::to_string(columns) + " columns",
      "its factor is a quotient of both", "pass 1 or more of each");
  return on_device<float>(
      MuonStepSize{settings.scale, settings.scale_factor, scalars.lr, rows, columns});
}

void muon_update(const Exec&, const StepScalars& scalars, float step_size,
                 Span<const float> orthogonal, Span<float> master) {
  require_same_numel("orthogonal", orthogonal, "master", master);
  if (orthogonal.empty()) return;
  const MuonUpdate update{scalars, step_size, orthogonal.data(), master.data()};
  run_elementwise(update, numel(orthogonal), update.orthogonal, update.master);
}

}  // namespace zeroproof::cuda::device
