#include "verification/tools/identify/formula_text.hpp"

namespace zeroproof::verification {
namespace {

std::string gradient_text(bool fused, const DialectHyper& hyper) {
  if (!couples(hyper)) return "";
  return fused ? ", g = fma(wd, p, g)" : ", g = g + wd*p";
}

const char* betas_text(Betas betas) {
  return betas == Betas::fp64 ? ", 1 - beta from fp64" : ", 1 - beta from fp32";
}

std::string corrections_text(Corrections corrections) {
  constexpr const char* texts[] = {"powers of fp64 betas", "powers of fp32 betas",
                                   "powers of fp32 betas, corrections kept in fp32",
                                   "running powers in fp32", "powers in fp32"};
  return texts[static_cast<int>(corrections)];
}

std::string denominator_text(Denominator form, Root root_form) {
  const std::string root = root_form == Root::rounded ? "sqrt" : "mkl_sqrt";
  switch (form) {
    case Denominator::reciprocal:
      return root + "(v)*r + eps";
    case Denominator::reciprocal_fused:
      return "fma(" + root + "(v), r, eps)";
    case Denominator::inside:
      return root + "(v/bc2) + eps";
    case Denominator::folded:
      return root + "(v) + eps*s";
    case Denominator::uncorrected:
      return root + "(v) + eps";
    case Denominator::quotient:
      break;
  }
  return root + "(v)/s + eps";
}

/// The new parameter, with q for the step.
std::string write_text(const MasterFormula& f, bool decays) {
  constexpr const char* writes[] = {"p + ((-a)*m)/d", "p - a*(m/d)", "fma(m/d, -a, p)",
                                    "p - lr*((m/bc1)/d)", "fma(-lr, (m/bc1)/d, p)"};
  const std::string write = writes[static_cast<int>(f.write)];
  if (!decays) return write;
  switch (f.decay) {
    case Decay::factor:
      return "p = p*(1 - lr*wd), " + write;
    case Decay::before:
      return "p = p - (lr*wd)*p, " + write;
    case Decay::before_fused:
      return "p = fma(p, -(lr*wd), p), " + write;
    case Decay::added:
      return "p - (a*(m/d) + (lr*wd)*p)";
    case Decay::added_fused:
      return "p - fma(lr*wd, p, a*(m/d))";
    case Decay::in_rate:
    case Decay::in_rate_fused:
      break;
  }
  const std::string u =
      f.decay == Decay::in_rate ? "u = (m/bc1)/d + wd*p" : "u = fma(wd, p, (m/bc1)/d)";
  return u + (f.write == Write::corrected ? ", p - lr*u" : ", fma(-lr, u, p)");
}

}  // namespace

bool couples(const DialectHyper& hyper) {
  return traits_of(hyper.rule).decay == DecayKind::coupled && hyper.weight_decay != 0;
}

bool decouples(const DialectHyper& hyper) {
  return traits_of(hyper.rule).decay == DecayKind::decoupled && hyper.weight_decay != 0;
}

std::string first_moment_text(FirstMoment form, Betas betas, bool coupled_fused,
                              const DialectHyper& hyper) {
  constexpr const char* forms[] = {"fma(w, g - m, m)", "m + w*(g - m)", "b*m + w*g",
                                   "fma(b, m, w*g)", "fma(w, g, b*m)"};
  return forms[static_cast<int>(form)] + std::string(betas_text(betas)) +
         gradient_text(coupled_fused, hyper);
}

std::string second_moment_text(SecondMoment form, Betas betas, bool coupled_fused,
                               const DialectHyper& hyper) {
  constexpr const char* forms[] = {"b*v + (c*g)*g",   "fma(b, v, (c*g)*g)", "fma(c*g, g, b*v)",
                                   "b*v + c*(g*g)",   "fma(b, v, c*(g*g))", "fma(g*g, c, b*v)",
                                   "v + c*(g*g - v)", "fma(c, g*g - v, v)"};
  return forms[static_cast<int>(form)] + std::string(betas_text(betas)) +
         gradient_text(coupled_fused, hyper);
}

std::string muon_ema_text(FirstMoment form, Betas betas) {
  constexpr const char* forms[] = {"fma(w, g - m, m)", "m + w*(g - m)", "mu*m + w*g",
                                   "fma(mu, m, w*g)", "fma(w, g, mu*m)"};
  return std::string("ema: ") + forms[static_cast<int>(form)] +
         (betas == Betas::fp64 ? ", w = 1 - mu from fp64" : ", w = 1 - mu from fp32");
}

std::string muon_heavy_ball_text(bool fused) {
  return fused ? "heavy ball: fma(mu, m, g)" : "heavy ball: mu*m + g";
}

std::string maximum_text(Maximum form) {
  return form == Maximum::keeps_nan ? "max(x, v), a NaN stays" : "x >= v ? x : v";
}

std::string master_text(const MasterFormula& f, const DialectHyper& hyper) {
  return "d = " + denominator_text(f.denominator, f.root) + ", " + write_text(f, decouples(hyper)) +
         (hyper.bias_correction ? ", " + corrections_text(f.corrections) : "");
}

std::string lamb_master_text(const LambMaster& f, const DialectHyper& hyper) {
  constexpr const char* steps[] = {"a*(m/d)", "(m/bc1)/d", "m/d"};
  constexpr const char* writes[] = {"p - k*u", "fma(-k, u, p)", "p - lr*(k*u)", "fma(-lr, k*u, p)"};
  std::string u = steps[static_cast<int>(f.step)];
  if (decouples(hyper)) {
    const std::string decay = f.step == LambStep::scaled             ? "lr*wd"
                              : f.denominator == Denominator::folded ? "wd/f"
                                                                     : "wd";
    u = f.decay_fused ? "fma(" + decay + ", p, " + u + ")" : u + " + (" + decay + ")*p";
  }
  const bool corrected = hyper.bias_correction && f.denominator != Denominator::uncorrected;
  return "d = " + denominator_text(f.denominator, f.root) + ", u = " + u + ", " +
         writes[static_cast<int>(f.write)] +
         (corrected ? ", " + corrections_text(f.corrections) : "");
}

std::string buffer_text(Contraction form, bool is_first, bool coupled_fused,
                        const DialectHyper& hyper) {
  constexpr const char* forms[] = {"mu*b + (1 - damp)*g", "fma(mu, b, (1 - damp)*g)",
                                   "fma(1 - damp, g, mu*b)"};
  return (is_first ? std::string("g") : forms[static_cast<int>(form)]) +
         gradient_text(coupled_fused, hyper);
}

std::string sgd_master_text(bool nesterov_fused, bool write_fused, bool coupled_fused,
                            const DialectHyper& hyper) {
  std::string e;
  if (hyper.momentum == 0) e = gradient_text(coupled_fused, hyper);
  if (hyper.momentum != 0 && hyper.nesterov) {
    e = (nesterov_fused ? ", e = fma(mu, b, g)" : ", e = g + mu*b") +
        gradient_text(coupled_fused, hyper);
  }
  return (write_fused ? "fma(-lr, e, p)" : "p - lr*e") + e;
}

}  // namespace zeroproof::verification
