#pragma once
// Hyper-parameters and step scalars for tests of update rules.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/contracts/step_scalars.hpp"
#include "verification/ops/op_setting.hpp"

namespace zeroproof::verification {

/// Arguments of an update: scalars made by R5, and their inputs.
struct UpdateSettings {
  OptimizerHyper hyper;
  std::int64_t t = 1;  ///< the step that is applied
  StepScalars scalars{};
};

/// "typical", "no decay, factors 0 and 1", "strong".
std::vector<std::string> update_set_names();

/// Names of variants: every set with each of the forms of an update, "typical maximize".
std::vector<std::string> update_variants(std::initializer_list<const char*> forms);

/// The set of that number in update_set_names(), for a rule and its options. `options`: rule,
/// amsgrad, maximize and nesterov are kept; momentum other than 0 requires a momentum buffer; all
/// other values are the set's.
UpdateSettings update_settings(int number, OptimizerHyper options);

/// By name, for candidates outside this program: first t and the configured values, then the
/// scalars of R5.
std::vector<OpSetting> described(const UpdateSettings& settings);

/// The same of Newton-Schulz, of the step size of a matrix and of the momentum: choices as the numbers of their
/// enumerators.
std::vector<OpSetting> described(const NewtonSchulzOptions& options);
std::vector<OpSetting> described(const NewtonSchulzOptions& options, std::int64_t rows,
                                 std::int64_t columns);
std::vector<OpSetting> described(const MuonSettings& settings, const StepScalars& scalars);
std::vector<OpSetting> described_momentum(const UpdateSettings& settings);

}  // namespace zeroproof::verification
