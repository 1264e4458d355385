#pragma once
// The choices that separate one library's arithmetic from another's. A formula is a choice for
// every buffer; elements.hpp computes each choice, formula_text.cpp prints it.

#include <cstdint>

namespace zeroproof::verification {

/// The product of x*y + z*w that is not rounded by itself: a contracting compiler chooses one of
/// the two.
enum class Contraction : std::uint8_t { none, left, right };

/// Source of 1 - beta: the fp64 beta, rounded once at the end, or beta rounded to fp32 first.
enum class Betas : std::uint8_t { fp64, fp32 };

/// Computation of the powers of beta, and from them of step size and bias corrections.
enum class Corrections : std::uint8_t {
  fp64,     ///< the C library's pow of the fp64 betas, rounded once where it is used
  widened,  ///< repeated squaring of the fp32 betas in fp64 (R5 of the contract)
  stored,  ///< the C library's pow of the fp32 betas in fp64, and the two corrections are kept as fp32
  running,  ///< s#fp32 for everything made of them#fp32 for all values derived from them#
  single    ///< powers in fp32, and everything made of them
};

/// m' from m and g, with w = 1 - beta1 and b = beta1.
enum class FirstMoment : std::uint8_t { lerp_fused, lerp, plain, left, right };

/// v' from v and g, with c = 1 - beta2 and b = beta2: (c*g)*g, c*(g*g), or a lerp towards g*g.
enum class SecondMoment : std::uint8_t {
  scaled,
  scaled_left,
  scaled_right,
  squared,
  squared_left,
  squared_right,
  lerp,
  lerp_fused
};

/// max(max_exp_avg_sq, v'): a NaN in max_exp_avg_sq is kept, or replaced by the next number (the
/// contract).
enum class Maximum : std::uint8_t { keeps_nan, replaces_nan };

/// The square root: rounded correctly, or as MKL's vector library takes it on AMD (roots.hpp).
enum class Root : std::uint8_t { rounded, mkl_amd };

/// d from the root of v': root/s + eps, root*r + eps, fma(root, r, eps), or eps + root of (v'/bc2).
/// Only lamb: root + eps*s, whose bias correction is in another factor, or root + eps without one.
enum class Denominator : std::uint8_t {
  quotient,
  reciprocal,
  reciprocal_fused,
  inside,
  folded,
  uncorrected
};

/// Position of decoupled decay: p*k first; p less (lr*wd)*p first; beside the step, in one sum with
/// it; or inside the product with the rate.
enum class Decay : std::uint8_t {
  factor,
  before,
  before_fused,
  added,
  added_fused,
  in_rate,
  in_rate_fused
};

/// p' from p, m' and d.
enum class Write : std::uint8_t {
  numerator,       ///< p + ((-a)*m)/d
  quotient,        ///< p - a*(m/d)
  quotient_fused,  ///< fma(m/d, -a, p)
  corrected,       ///< p - lr*((m/bc1)/d)
  corrected_fused  ///< fma(-lr, (m/bc1)/d, p)
};

/// Computes master from the moments.
struct MasterFormula {
  Corrections corrections = Corrections::fp64;
  Root root = Root::rounded;
  Denominator denominator = Denominator::quotient;
  Decay decay = Decay::factor;
  Write write = Write::numerator;
  bool operator==(const MasterFormula&) const = default;
};

/// Adam and AdamW. The last n mod tail_width elements of a tensor of n (0: none) may have other
/// moments.
struct AdamFormula {
  bool coupled_fused = false;  ///< L2: fma(wd, p, g), or g + wd*p
  Betas betas = Betas::fp64;
  FirstMoment first = FirstMoment::plain, first_tail = FirstMoment::plain;
  SecondMoment second = SecondMoment::scaled, second_tail = SecondMoment::scaled;
  Maximum maximum = Maximum::keeps_nan;
  MasterFormula master;
};

/// The update of LAMB before its decay: a*(m/d), (m/bc1)/d or m/d.
enum class LambStep : std::uint8_t { scaled, corrected, plain };

/// p' from p, u and k, the factor of the whole tensor, which contains its trust ratio.
enum class LambWrite : std::uint8_t {
  product,        ///< p - k*u
  product_fused,  ///< fma(-k, u, p)
  rate,           ///< p - lr*(k*u)
  rate_fused      ///< fma(-lr, k*u, p)
};

/// Computes u of LAMB from the moments, and master from u.
struct LambMaster {
  Corrections corrections = Corrections::fp64;
  Root root = Root::rounded;
  Denominator denominator = Denominator::quotient;
  LambStep step = LambStep::corrected;
  bool decay_fused = false;
  LambWrite write = LambWrite::product;
};

/// Ratios that a library takes of the norms N_w and N_u of one tensor. Its sum of squares is in an
/// order that no step determines: a ratio is judged by a bound for every order.
struct RatioRule {
  bool optional = false;           ///< where weight_decay is 0: 1, or by an option the ratio
  bool clip = false;               ///< has an option that limits the ratio to 1
  double least = 0, most = 1e300;  ///< limits of the ratio
  double most_weight = 1e300;      ///< limit of N_w
  bool exact = false;              ///< the norms are correctly rounded
};

/// LAMB. Only the moments of `moments` are used.
struct LambFormula {
  AdamFormula moments = {};
  LambMaster master = {};
  RatioRule ratio = {};
};

/// SGD with momentum.
struct SgdFormula {
  bool coupled_fused = false;
  Contraction buffer = Contraction::none,
              buffer_tail = Contraction::none;  ///< of mu*b + (1 - dampening)*g
  bool nesterov_fused = false;                  ///< fma(mu, b, g), or g + mu*b
  bool write_fused = false;                     ///< fma(-lr, e, p), or p - lr*e
};

/// The denominators that belong to a step of lamb.
constexpr bool sensible(LambStep step, Denominator denominator) {
  if (step == LambStep::plain)
    return denominator == Denominator::folded || denominator == Denominator::uncorrected;
  return denominator == Denominator::quotient || denominator == Denominator::inside;
}

/// Forms that make no sense together: the step and the decay in one sum need a step that is a
/// product of its own.
constexpr bool sensible(Decay decay, Write write) {
  const bool corrected = write == Write::corrected || write == Write::corrected_fused;
  if (decay == Decay::added || decay == Decay::added_fused) return write == Write::quotient;
  if (decay == Decay::in_rate || decay == Decay::in_rate_fused) return corrected;
  return true;
}

}  // namespace zeroproof::verification
