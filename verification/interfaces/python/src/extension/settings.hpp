#pragma once
// Hyper-parameters by name.

#include <string>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/contracts/loss_scaler.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/step/clip_groups.hpp"
#include "common/step/matrix_tensors.hpp"
#include "common/step/param_groups.hpp"
#include "verification/interfaces/python/src/extension/containers.hpp"
#include "verification/ops/op_setting.hpp"

namespace zeroproof::python {

/// The hyper-parameters of a rule; fields that `settings` does not name have the defaults of
/// OptimizerHyper, except that there is no max_norm. beta1 and beta2 are rounded to fp32 (R5).
/// Errors: ValueError for a rule or a name that does not exist, with the nearest, and for a setting of muon with another
/// rule; TypeError for a value of another kind.
OptimizerHyper hyper_of(const std::string& rule, const py::Dict& settings);

/// Rules of groups from dicts; the keys are those of [[param_group]] and [[clip_group]] in a configuration. Errors:
/// TypeError and ValueError as hyper_of.
std::vector<GroupRule> param_groups_of(const py::List& groups);
std::vector<ClipGroupRule> clip_groups_of(const py::List& groups);
/// The same of [[matrix_split]].
std::vector<MatrixSplitRule> matrix_splits_of(const py::List& splits);

/// The same for a loss scaler: kind, log2_initial and so on.
LossScalerConfig scaler_of(const py::Dict& settings);

/// The dtype of that name: "fp32", "float32", "bf16", "bfloat16", "fp16", "float16", "half", "e4m3", "e5m2".
/// Errors: ValueError, with the nearest.
DType dtype_of(const std::string& name);

/// The settings of a call by name.
py::Dict dict_of(const std::vector<verification::OpSetting>& settings);

/// The scalars of R5 as a dict: floats, has_decay and is_first as integers.
py::Dict dict_of(const StepScalars& scalars);

}  // namespace zeroproof::python
