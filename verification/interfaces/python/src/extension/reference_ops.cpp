#include "verification/interfaces/python/src/extension/reference_ops.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "common/step/state_buffers.hpp"
#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/interfaces/python/src/extension/arrays.hpp"
#include "verification/interfaces/python/src/extension/settings.hpp"

namespace zeroproof::python {
namespace {

std::atomic<int> candidates_running = 0;
std::atomic<int> reference_calls = 0;

HostArray input(const py::Object& array, const char* name, DType dtype = DType::fp32) {
  return host_array(array, name, dtype, false);
}
HostArray output(const py::Object& array, const char* name, DType dtype = DType::fp32) {
  return host_array(array, name, dtype, true);
}

void same_shape(const HostArray& one, const HostArray& other, const std::string& name) {
  ZP_CHECK(one.shape == other.shape, ErrorCode::invalid_argument,
           name + " has another shape than the array before it",
           "element i of one belongs to element i of the other", "reshape one of them");
}

void apart(const HostArray& one, const HostArray& other, const std::string& name) {
  const auto* a = static_cast<const std::byte*>(one.view.data);
  const auto* b = static_cast<const std::byte*>(other.view.data);
  const bool overlap = a < b + other.view.num_bytes() && b < a + one.view.num_bytes();
  ZP_CHECK(!overlap || one.view.numel == 0 || other.view.numel == 0, ErrorCode::invalid_argument,
           name + " shares memory with another array of the call",
           "one would be overwritten before it is read", "use a copy of it");
}

/// One update in place, of a whole tensor; None for a state that the rule does not keep.
void update(const std::string& rule, const py::Dict& settings, std::int64_t t,
            const py::Object& grad, const py::Object& master, const py::Dict& state) {
  enter();
  const OptimizerHyper hyper = hyper_of(rule, settings);
  const StepScalars scalars = reference::step_scalars(hyper, t, 0, 1);
  std::vector<HostArray> arrays = {input(grad, "grad"), output(master, "master")};
  same_shape(arrays[0], arrays[1], "master");
  apart(arrays[0], arrays[1], "master");
  const reference::StateSpans spans = per_slot([&](StateSlot slot) {
    const std::string name(zeroproof::name(slot));
    if (!state.contains(name)) return Span<float>{};
    arrays.push_back(output(state.at(name), name.c_str()));
    same_shape(arrays[0], arrays.back(), name);
    for (std::size_t i = 0; i + 1 < arrays.size(); ++i) apart(arrays[i], arrays.back(), name);
    return arrays.back().as<float>();
  });
  const Span<const float> g = arrays[0].as<float>();
  const Span<float> p = arrays[1].as<float>();
  const py::GilRelease others_may_run;
  float trust_ratio = 1;
  if (traits_of(hyper.rule).trust_ratio) {
    TrustNorms norms;
    reference::lamb_norms({}, {hyper.maximize}, scalars, g, p, spans[StateSlot::exp_avg],
                          spans[StateSlot::exp_avg_sq], norms);
    trust_ratio = reference::lamb_trust_ratio(scalars, norms);
  }
  reference::update_by_rule(hyper, scalars, trust_ratio, g, p, spans);
}

/// Its rows and columns.
std::array<std::int64_t, 2> extents(const HostArray& array, const std::string& name) {
  ZP_CHECK(array.shape.size() == 2, ErrorCode::invalid_argument,
           name + " has " + std::to_string(array.shape.size()) + " dimensions",
           "a matrix has rows and columns", "reshape it");
  return {static_cast<std::int64_t>(array.shape[0]), static_cast<std::int64_t>(array.shape[1])};
}

void matrix_product(const py::Object& left, const py::Object& right, const py::Object& product,
                    const py::Dict& settings) {
  enter();
  const MatrixFactors factors = hyper_of("muon", settings).muon.newton_schulz.factors;
  const HostArray x = input(left, "left"), y = input(right, "right"),
                  p = output(product, "product");
  const auto [rows, inner] = extents(x, "left");
  const auto [columns, same_inner] = extents(y, "right");
  ZP_CHECK(inner == same_inner, ErrorCode::invalid_argument,
           "left has " + std::to_string(inner) + " columns and right " + std::to_string(same_inner),
           "the product is left times the transpose of right", "transpose or reshape one of them");
  apart(x, p, "product");
  apart(y, p, "product");
  reference::matrix_product({}, factors, rows, columns, inner, x.as<const float>(),
                            y.as<const float>(), p.as<float>());
}

void newton_schulz(const py::Object& matrix, const py::Object& orthogonal,
                   const py::Dict& settings) {
  enter();
  const HostArray from = input(matrix, "matrix"), to = output(orthogonal, "orthogonal");
  const auto [rows, columns] = extents(from, "matrix");
  same_shape(from, to, "orthogonal");
  const NewtonSchulzOptions options = hyper_of("muon", settings).muon.newton_schulz;
  const py::GilRelease others_may_run;
  reference::newton_schulz({}, options, rows, columns, from.as<const float>(), to.as<float>());
}

/// One step of a whole matrix, in place; orthogonal is the result of Newton-Schulz.
void muon(const py::Dict& settings, const py::Object& grad, const py::Object& master,
          const py::Object& exp_avg, const py::Object& orthogonal) {
  enter();
  const OptimizerHyper hyper = hyper_of("muon", settings);
  const StepScalars scalars = reference::step_scalars(hyper, 1, 0, 1);
  const std::array<HostArray, 4> arrays = {input(grad, "grad"), output(master, "master"),
                                           output(exp_avg, "exp_avg"),
                                           output(orthogonal, "orthogonal")};
  const auto [rows, columns] = extents(arrays[0], "grad");
  constexpr std::array names = {"grad", "master", "exp_avg", "orthogonal"};
  for (std::size_t i = 1; i < arrays.size(); ++i) {
    same_shape(arrays[0], arrays[i], names[i]);
    for (std::size_t j = 0; j < i; ++j) apart(arrays[j], arrays[i], names[i]);
  }
  const Span<float> o = arrays[3].as<float>();
  const py::GilRelease others_may_run;
  reference::muon_momentum({}, {hyper.nesterov, hyper.maximize}, scalars,
                           arrays[0].as<const float>(), arrays[2].as<float>(), o);
  reference::newton_schulz({}, hyper.muon.newton_schulz, rows, columns, o, o);
  if (o.empty()) return;
  const float step_size = reference::muon_step_size(hyper.muon, scalars, rows, columns);
  reference::muon_update({}, scalars, step_size, o, arrays[1].as<float>());
}

/// A new numpy array, after the same checks of `array` as in place.
py::Object fp32_copy(const py::Object& array, const std::string& name) {
  const HostArray from = host_array(array, name, DType::fp32, false);
  const auto values = from.as<const float>();
  auto memory = std::make_shared<std::vector<float>>(values.begin(), values.end());
  const TensorView view = {memory->data(), DType::fp32, from.view.numel};
  return numpy_array(view, from.shape, owner_of(std::move(memory)));
}

void cast(const py::Object& source, const py::Object& target, const std::string& dtype) {
  enter();
  const DType format = dtype_of(dtype);
  const HostArray from = input(source, "source");
  const HostArray to = output(target, "target", format);
  same_shape(from, to, "target");
  apart(from, to, "target");
  const Span<const float> in = from.as<float>();
  if (format == DType::bf16) return reference::cast_to_bf16({}, in, to.as<bf16>());
  if (format == DType::fp16) return reference::cast_to_fp16({}, in, to.as<fp16>());
  if (format == DType::e4m3) return reference::cast_to_e4m3({}, in, to.as<e4m3>());
  ZP_CHECK(format == DType::e5m2, ErrorCode::config, "a cast to fp32 has no effect",
           "the source is fp32", "use bf16, fp16, e4m3 or e5m2");
  reference::cast_to_e5m2({}, in, to.as<e5m2>());
}

void widen(const py::Object& source, const py::Object& target, const std::string& dtype) {
  enter();
  const DType format = dtype_of(dtype);
  const HostArray from = input(source, "source", format);
  const HostArray to = output(target, "target");
  same_shape(from, to, "target");
  apart(from, to, "target");
  const Span<float> out = to.as<float>();
  if (format == DType::bf16) return reference::widen_bf16({}, from.as<const bf16>(), out);
  if (format == DType::fp16) return reference::widen_fp16({}, from.as<const fp16>(), out);
  if (format == DType::e4m3) return reference::widen_e4m3({}, from.as<const e4m3>(), out);
  ZP_CHECK(format == DType::e5m2, ErrorCode::config, "fp32 cannot be widened to fp32",
           "the target is fp32", "use bf16, fp16, e4m3 or e5m2");
  reference::widen_e5m2({}, from.as<const e5m2>(), out);
}

void stochastic_cast(const py::Object& source, const py::Object& target, std::uint64_t seed,
                     std::uint64_t step, std::uint64_t first_index) {
  enter();
  const HostArray from = input(source, "source");
  const HostArray to = output(target, "target", DType::bf16);
  same_shape(from, to, "target");
  apart(from, to, "target");
  reference::stochastic_cast_to_bf16({}, {seed, step, first_index}, from.as<const float>(),
                                     to.as<bf16>());
}

bool unscale(const py::Object& grad_sum, const py::Object& unscaled_grad, float inv_scale) {
  enter();
  const HostArray from = input(grad_sum, "grad_sum");
  const HostArray to = output(unscaled_grad, "unscaled_grad");
  same_shape(from, to, "unscaled_grad");
  return reference::unscale({}, inv_scale, from.as<const float>(), to.as<float>());
}

void clip(const py::Object& unscaled_grad, const py::Object& grad, float clip_coef) {
  enter();
  const HostArray from = input(unscaled_grad, "unscaled_grad");
  const HostArray to = output(grad, "grad");
  same_shape(from, to, "grad");
  reference::clip({}, clip_coef, from.as<const float>(), to.as<float>());
}

void clip_value(const py::Object& grad, float value) {
  enter();
  reference::clip_value({}, value, output(grad, "grad").as<float>());
}

/// Form chunk1024, exact, one or inf of R12, over tensors in turn; each begins a chunk of its own.
double grad_norm(const py::List& grads, const std::string& form) {
  enter();
  static const std::vector<std::string> forms = {"chunk1024", "exact", "one", "inf"};
  const auto found = std::find(forms.begin(), forms.end(), form);
  ZP_CHECK(found != forms.end(), ErrorCode::config, "'" + form + "' is no form of the norm",
           "R12 has four, with bits of their own", "use chunk1024, exact, one or inf");
  NormLimbs limbs;
  std::uint32_t amax = 0;
  int k = 0;
  for (const py::Object& grad : grads.items()) {
    const HostArray array = input(grad, ("gradient " + std::to_string(k++)).c_str());
    const Span<const float> values = array.as<const float>();
    if (form == "chunk1024") reference::grad_norm_accumulate({}, values, limbs);
    if (form == "exact") reference::grad_norm_exact_accumulate({}, values, limbs);
    if (form == "one") reference::grad_abs_accumulate({}, values, limbs);
    if (form == "inf") reference::grad_max_accumulate({}, values, amax);
  }
  if (form == "inf") return reference::grad_max_finish(amax);
  return form == "one" ? reference::grad_abs_finish(limbs) : reference::grad_norm_finish(limbs);
}

double grad_norm_p(const py::Object& grad, double p) {
  enter();
  return reference::grad_norm_p({}, input(grad, "grad").as<const float>(), p);
}

float clip_coef(double grad_norm, std::optional<double> max_norm) {
  enter();
  return reference::clip_coef(grad_norm, max_norm);
}

void grad_sum(const py::List& leaves, const py::Object& sum) {
  enter();
  std::vector<HostArray> arrays;
  std::vector<Span<const float>> spans;
  const HostArray out = output(sum, "sum");
  ZP_CHECK(leaves.size() > 0, ErrorCode::invalid_argument, "leaves is empty",
           "a sum has at least one micro-batch", "pass a list of arrays");
  for (const py::Object& leaf : leaves.items()) {
    arrays.push_back(input(leaf, ("leaf " + std::to_string(arrays.size())).c_str()));
    same_shape(arrays.back(), out, "sum");
    apart(arrays.back(), out, "sum");
    spans.push_back(arrays.back().as<const float>());
  }
  reference::grad_sum({}, spans, out.as<float>());
}

py::Dict dict_of_state(const LossScalerState& state) {
  py::Dict dict;
  dict.set("log2_scale", state.log2_scale);
  dict.set("growth_tracker", state.growth_tracker);
  dict.set("hysteresis_left", state.hysteresis_left);
  return dict;
}

py::Dict loss_scaler_init(const py::Dict& config) {
  enter();
  return dict_of_state(reference::loss_scaler_init(scaler_of(config)));
}

py::Dict loss_scaler_update(const py::Dict& config, int log2_scale, int growth_tracker,
                            int hysteresis_left, bool found_inf) {
  enter();
  return dict_of_state(reference::loss_scaler_update(
      scaler_of(config), {log2_scale, growth_tracker, hysteresis_left}, found_inf));
}

py::Dict step_scalars(const std::string& rule, const py::Dict& settings, std::int64_t t,
                      int log2_loss_scale, std::int64_t divisor) {
  enter();
  return dict_of(reference::step_scalars(hyper_of(rule, settings), t, log2_loss_scale, divisor));
}

}  // namespace

void enter() {
  if (candidates_running > 0) ++reference_calls;
  require_fp_environment("the thread that calls the reference");
}

CandidateRuns::CandidateRuns() {
  if (candidates_running++ == 0) reference_calls = 0;
}
CandidateRuns::~CandidateRuns() { --candidates_running; }
bool CandidateRuns::asked_reference() const { return reference_calls > 0; }

void bind_reference(py::Module& module) {
  module.def<&update>("update", {"rule", "settings", "t", "grad", "master", "state"});
  module.def<&matrix_product>("matrix_product", {"left", "right", "product", "settings"});
  module.def<&newton_schulz>("newton_schulz", {"matrix", "orthogonal", "settings"});
  module.def<&muon>("muon", {"settings", "grad", "master", "exp_avg", "orthogonal"});
  module.def<&step_scalars>("step_scalars",
                            {"rule", "settings", "t", "log2_loss_scale", "divisor"});
  module.def<&fp32_copy>("fp32_copy", {"array", "name"});
  module.def<&cast>("cast", {"source", "target", "dtype"});
  module.def<&widen>("widen", {"source", "target", "dtype"});
  module.def<&stochastic_cast>("stochastic_cast",
                               {"source", "target", "seed", "step", "first_index"});
  module.def<&unscale>("unscale", {"grad_sum", "unscaled_grad", "inv_scale"});
  module.def<&clip>("clip", {"unscaled_grad", "grad", "clip_coef"});
  module.def<&clip_value>("clip_value", {"grad", "clip_value"});
  module.def<&clip_coef>("clip_coef", {"grad_norm", "max_norm"});
  module.def<&grad_norm>("grad_norm", {"grads", "form"});
  module.def<&grad_norm_p>("grad_norm_p", {"grad", "p"});
  module.def<&grad_sum>("grad_sum", {"leaves", "sum"});
  module.def<&loss_scaler_init>("loss_scaler_init", {"config"});
  module.def<&loss_scaler_update>("loss_scaler_update", {"config", "log2_scale", "growth_tracker",
                                                         "hysteresis_left", "found_inf"});
}

}  // namespace zeroproof::python
