#pragma once
// One element of every form, in scalar code: each operator rounds to fp32, std::fma once. Written
// from the table of README.md; w, c and so on are the names there.

#include <cmath>

#include "verification/tools/identify/formula.hpp"
#include "verification/tools/identify/roots.hpp"
#include "verification/tools/identify/scalars.hpp"

namespace zeroproof::verification {

/// x*y + z*w.
inline float sum_of_products(Contraction contraction, float x, float y, float z, float w) {
  switch (contraction) {
    case Contraction::left:
      return std::fma(x, y, z * w);
    case Contraction::right:
      return std::fma(z, w, x * y);
    case Contraction::none:
      break;
  }
  return x * y + z * w;
}

/// Interpolates from a to b by the fraction w. For w >= 1/2 the sum starts at b, so that w = 1
/// returns b exactly.
inline float lerp(bool fused, float a, float b, float w) {
  const bool near = std::fabs(w) < 0.5F;
  const float weight = near ? w : w - 1;
  const float start = near ? a : b;
  return fused ? std::fma(weight, b - a, start) : start + weight * (b - a);
}

inline float first_moment(FirstMoment form, const AverageWeights& w, float m, float g) {
  switch (form) {
    case FirstMoment::lerp_fused:
      return lerp(true, m, g, w.take);
    case FirstMoment::lerp:
      return lerp(false, m, g, w.take);
    case FirstMoment::left:
      return sum_of_products(Contraction::left, m, w.keep, w.take, g);
    case FirstMoment::right:
      return sum_of_products(Contraction::right, m, w.keep, w.take, g);
    case FirstMoment::plain:
      break;
  }
  return sum_of_products(Contraction::none, m, w.keep, w.take, g);
}

inline float second_moment(SecondMoment form, const AverageWeights& w, float v, float g) {
  const float scaled = w.take * g;
  const float square = g * g;
  switch (form) {
    case SecondMoment::scaled_left:
      return sum_of_products(Contraction::left, v, w.keep, scaled, g);
    case SecondMoment::scaled_right:
      return sum_of_products(Contraction::right, v, w.keep, scaled, g);
    case SecondMoment::squared:
      return sum_of_products(Contraction::none, v, w.keep, square, w.take);
    case SecondMoment::squared_left:
      return sum_of_products(Contraction::left, v, w.keep, square, w.take);
    case SecondMoment::squared_right:
      return sum_of_products(Contraction::right, v, w.keep, square, w.take);
    case SecondMoment::lerp:
      return lerp(false, v, square, w.take);
    case SecondMoment::lerp_fused:
      return lerp(true, v, square, w.take);
    case SecondMoment::scaled:
      break;
  }
  return sum_of_products(Contraction::none, v, w.keep, scaled, g);
}

inline float maximum(Maximum form, float before, float v) {
  if (form == Maximum::keeps_nan && std::isnan(before)) return before;
  return before >= v ? before : v;
}

inline float root(Root form, float x) {
  return form == Root::rounded ? std::sqrt(x) : mkl_amd_root(x);
}

inline float denominator(Denominator form, float root_of_v, float root_of_corrected,
                         const MasterScalars& s) {
  switch (form) {
    case Denominator::reciprocal:
      return root_of_v * s.inverse_root + s.eps;
    case Denominator::reciprocal_fused:
      return std::fma(root_of_v, s.inverse_root, s.eps);
    case Denominator::inside:
      return root_of_corrected + s.eps;
    case Denominator::folded:
      return root_of_v + s.eps_root;
    case Denominator::uncorrected:
      return root_of_v + s.eps;
    case Denominator::quotient:
      break;
  }
  return root_of_v / s.root_correction + s.eps;
}

/// The parameter before the step, where decay comes first.
inline float decayed_first(Decay form, float p, const MasterScalars& s) {
  if (form == Decay::factor) return p * s.one_less_decay;
  if (form == Decay::before) return p - s.lr_weight_decay * p;
  if (form == Decay::before_fused) return std::fma(p, -s.lr_weight_decay, p);
  return p;
}

/// The step written onto a parameter that was decayed before, or has no decay.
inline float written(Write form, float p, float m, float d, const MasterScalars& s) {
  switch (form) {
    case Write::quotient:
      return p - s.step_size * (m / d);
    case Write::quotient_fused:
      return std::fma(m / d, -s.step_size, p);
    case Write::corrected:
      return p - s.lr * ((m / s.correction1) / d);
    case Write::corrected_fused:
      return std::fma(-s.lr, (m / s.correction1) / d, p);
    case Write::numerator:
      break;
  }
  return p + (-s.step_size * m) / d;
}

/// master' from the new moments; x is v', or the maximum of amsgrad. `decays`: decoupled decay that
/// is not 0.
inline float new_master(const MasterFormula& f, bool decays, float p, float m, float x,
                        const MasterScalars& s) {
  const bool inside = f.denominator == Denominator::inside;
  const float d = denominator(f.denominator, inside ? 0 : root(f.root, x),
                              inside ? root(f.root, x / s.correction2) : 0, s);
  if (!decays) return written(f.write, p, m, d, s);
  switch (f.decay) {
    case Decay::added:
      return p - (s.step_size * (m / d) + s.lr_weight_decay * p);
    case Decay::added_fused:
      return p - std::fma(s.lr_weight_decay, p, s.step_size * (m / d));
    case Decay::in_rate:
    case Decay::in_rate_fused: {
      const float q = (m / s.correction1) / d;
      const float u =
          f.decay == Decay::in_rate ? q + s.weight_decay * p : std::fma(s.weight_decay, p, q);
      return f.write == Write::corrected ? p - s.lr * u : std::fma(-s.lr, u, p);
    }
    case Decay::factor:
    case Decay::before:
    case Decay::before_fused:
      break;
  }
  return written(f.write, decayed_first(f.decay, p, s), m, d, s);
}

/// u of lamb from the moments m and v; p is the parameter before the step.
inline float lamb_update(const LambMaster& f, bool decays, float p, float m, float v,
                         const MasterScalars& s) {
  const bool inside = f.denominator == Denominator::inside;
  const float d = denominator(f.denominator, inside ? 0 : root(f.root, v),
                              inside ? root(f.root, v / s.correction2) : 0, s);
  float u = f.step == LambStep::corrected ? (m / s.correction1) / d : m / d;
  if (f.step == LambStep::scaled) u = s.step_size * u;
  if (!decays) return u;
  const float decay = f.step == LambStep::scaled             ? s.lr_weight_decay
                      : f.denominator == Denominator::folded ? s.folded_weight_decay
                                                             : s.weight_decay;
  return f.decay_fused ? std::fma(decay, p, u) : u + decay * p;
}

/// master' of lamb; does not increase with c where u is positive, nor decrease where it is negative.
inline float lamb_master(LambWrite form, float p, float u, float c, float lr) {
  switch (form) {
    case LambWrite::product_fused:
      return std::fma(-c, u, p);
    case LambWrite::rate:
      return p - lr * (c * u);
    case LambWrite::rate_fused:
      return std::fma(-lr, c * u, p);
    case LambWrite::product:
      break;
  }
  return p - c * u;
}

/// The gradient after maximize and decay through the gradient. `decays`: coupled decay that is not
/// 0.
inline float used_gradient(const DialectHyper& hyper, bool decays, bool fused, float p, float g) {
  if (hyper.maximize) g = -g;
  if (!decays) return g;
  const auto wd = static_cast<float>(hyper.weight_decay);
  return fused ? std::fma(wd, p, g) : g + wd * p;
}

/// The update of sgd with nesterov.
inline float nesterov(bool fused, float momentum, float buffer, float g) {
  return fused ? std::fma(momentum, buffer, g) : g + momentum * buffer;
}

inline float sgd_master(bool fused, float lr, float e, float p) {
  return fused ? std::fma(-lr, e, p) : p - lr * e;
}

}  // namespace zeroproof::verification
