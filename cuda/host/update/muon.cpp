#include <algorithm>
#include <cmath>
#include <string>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/matrix_kernels.hpp"
#include "cuda/host/update/setting_checks.hpp"

namespace zeroproof::cuda::host {
namespace {

/// f of R28.
double shape_factor(MuonScale scale, std::int64_t rows, std::int64_t columns) {
  const double larger = static_cast<double>(std::max(rows, columns));
  const double ratio = static_cast<double>(rows) / static_cast<double>(columns);
  switch (scale) {
    case MuonScale::none:
      break;
    case MuonScale::original:
      return std::sqrt(ratio > 1.0 ? ratio : 1.0);
    case MuonScale::spectral:
      return std::sqrt(larger);
    case MuonScale::match_rms_adamw:
      return 0.2 * std::sqrt(larger);
    case MuonScale::unit_rms_norm:
      return std::sqrt(ratio);
  }
  return 1.0;
}

}  // namespace

void muon_momentum(const Exec& exec, const MuonMomentumOptions& options, const StepScalars& scalars,
                   Span<const float> grad, Span<float> exp_avg, Span<float> direction) {
  require_same_numel("muon_momentum", "grad", grad.size(), "exp_avg", exp_avg.size());
  require_same_numel("muon_momentum", "grad", grad.size(), "direction", direction.size());
  const MatrixKernels& kernels = matrix_kernels(exec.isa);
  parallel_blocks(exec, numel(grad), [&](std::int64_t begin, std::int64_t end) {
    kernels.momentum(scalars.momentum, scalars.one_minus_dampening, options.nesterov,
                     options.maximize ? 0x80000000U : 0U, grad.data() + begin,
                     exp_avg.data() + begin, direction.data() + begin, end - begin);
  });
}

float muon_step_size(const MuonSettings& settings, const StepScalars& scalars, std::int64_t rows,
                     std::int64_t columns) {
  ZP_CHECK(std::isfinite(settings.scale_factor) && settings.scale_factor > 0,
           ErrorCode::invalid_argument,
           "muon_step_size: scale_factor is " + setting_checks::text(settings.scale_factor),
           "it multiplies every update", "use a finite number above 0");
  ZP_CHECK(rows >= 1 && columns >= 1, ErrorCode::invalid_argument,
           "muon_step_size: the matrix has " + std::to_string(rows) + " rows and " +
               std::to_string(columns) + " columns",
           "its factor depends on their ratio", "pass a matrix that has elements");
  const double z = settings.scale_factor * shape_factor(settings.scale, rows, columns);
  return static_cast<float>(static_cast<double>(scalars.lr) * z);
}

void muon_update(const Exec& exec, const StepScalars& scalars, float step_size,
                 Span<const float> orthogonal, Span<float> master) {
  require_same_numel("muon_update", "orthogonal", orthogonal.size(), "master", master.size());
  const MatrixKernels& kernels = matrix_kernels(exec.isa);
  parallel_blocks(exec, numel(master), [&](std::int64_t begin, std::int64_t end) {
    kernels.muon_update(step_size, scalars.has_decay != 0, scalars.lr_weight_decay,
                        orthogonal.data() + begin, master.data() + begin, end - begin);
  });
}

}  // namespace zeroproof::cuda::host
