#pragma once
// The choices that separate one library's Muon from another's. All are of R28 or near it; a step shows them by the
// distance of its update from the one that a choice gives, and where matrices are small, in bits.

#include <cstdint>
#include <string>
#include <vector>

#include "common/contracts/muon.hpp"

namespace zeroproof::verification {

/// The matrix that is orthogonalised, from the gradient g and the new momentum m.
enum class MuonDirection : std::uint8_t {
  momentum,            ///< m
  nesterov,            ///< w g + mu m, w being the weight of g in m
  nesterov_corrected,  ///< mu m / (1 - mu^(t+1)) + (1 - mu) g / (1 - mu^t), of optax
};

/// How b A + c A^2 and a X + B X are rounded.
enum class MuonProducts : std::uint8_t {
  fused,           ///< both sums once: addmm
  scaled_factor,   ///< b*A + (c*A) @ A, every operation rounded
  scaled_product,  ///< b*A + c*(A @ A), every operation rounded
  partly_fused,    ///< addmm(b*A, c*A, A): the scaled matrices rounded, the sums once
  single,          ///< fp32 products: their order decides, and no form is visible
};

/// The matrix that the norm is taken of, and the rounding of its quotient.
enum class MuonInput : std::uint8_t {
  bf16_norm_bf16,  ///< rounded to bf16 first, and its norm too
  bf16_first,      ///< rounded to bf16 first, the norm is not
  bf16_last,       ///< the norm of the fp32 matrix; the quotient is rounded to bf16
  fp32,            ///< no bf16
};

/// The factor of an update of r rows and c columns: that of R28, or with r and c exchanged, as for weights of (in, out).
struct MuonScaling {
  MuonScale scale = MuonScale::original;
  bool exchanged = false;
  bool operator==(const MuonScaling&) const = default;
};

/// p and O in p'. z is the factor of the shape.
enum class MuonWrite : std::uint8_t {
  scaled_rate,     ///< p*(1 - lr*wd), less (lr*z)*O: O of bf16, z in the rate
  scaled_update,   ///< p + (-lr*wd)*p, less lr*(z*O): O of bf16, z*O of fp32
  rounded_update,  ///< p*(1 - lr*wd), less lr*O: z*O rounded to bf16
  in_sum,          ///< p - ((lr*z)*O + (lr*wd)*p)
  single           ///< O has no bf16: its form is not visible
};

/// One library's Muon.
struct MuonFormula {
  MomentumFamily family = MomentumFamily::ema;
  std::vector<MuonDirection> directions = {MuonDirection::momentum, MuonDirection::nesterov};
  std::vector<NewtonSchulzSet> sets = {NewtonSchulzSet::simple};
  MuonProducts products = MuonProducts::fused;
  MuonInput input = MuonInput::bf16_norm_bf16;
  bool compiled =
      false;  ///< a compiler fuses operations: products and input are known up to their noise
  NormFloor floor = NormFloor::clamp;
  double eps = 1e-7;
  std::vector<MuonScaling> scales = {{MuonScale::original}};
  bool free_factor = false;  ///< a setting multiplies the scale
  MuonWrite write = MuonWrite::scaled_rate;
};

}  // namespace zeroproof::verification
