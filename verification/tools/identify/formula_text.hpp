#pragma once
// Formulas as text. Two texts are equal if and only if the formulas are: identify finds a dialect's
// formula among its candidates by text.

#include <string>

#include "verification/tools/identify/dialect.hpp"

namespace zeroproof::verification {

/// "fma(w, g - m, m), 1 - beta from fp64". L2, if hyper has it, is part of the input of the
/// moments.
std::string first_moment_text(FirstMoment form, Betas betas, bool coupled_fused,
                              const DialectHyper& hyper);
std::string second_moment_text(SecondMoment form, Betas betas, bool coupled_fused,
                               const DialectHyper& hyper);
std::string maximum_text(Maximum form);
std::string master_text(const MasterFormula& form, const DialectHyper& hyper);

/// Of lamb.
std::string lamb_master_text(const LambMaster& form, const DialectHyper& hyper);

/// Of sgd.
std::string buffer_text(Contraction form, bool is_first, bool coupled_fused,
                        const DialectHyper& hyper);
std::string sgd_master_text(bool nesterov_fused, bool write_fused, bool coupled_fused,
                            const DialectHyper& hyper);

/// Of the momentum of muon.
std::string muon_ema_text(FirstMoment form, Betas betas);
std::string muon_heavy_ball_text(bool fused);

/// True if weight_decay is added to the gradient.
bool couples(const DialectHyper& hyper);
/// True if weight_decay is subtracted from the parameter.
bool decouples(const DialectHyper& hyper);

}  // namespace zeroproof::verification
