// The undistributed reference as a library's whole step, computed from the call alone: if it fails,
// the call lacks something, and no library could pass.

#include <cstring>

#include "reference/dense_optimizer.hpp"
#include "verification/interfaces/capi/zeroproof_plugin.h"

namespace {

using namespace zeroproof;

template <class T>
struct Operand {
  Operand(const zeroproof_call* call, const char* name) {
    const zeroproof_tensor& tensor = zeroproof_find_operand(call, name)->tensor;
    data = static_cast<T*>(tensor.data);
    rows = tensor.shape[0];
    columns = tensor.ndim == 2 ? tensor.shape[1] : 1;
    bits = tensor.dtype.bits;
    code = tensor.dtype.code;
  }
  Span<T> span() const { return {data, static_cast<std::size_t>(rows * columns)}; }
  DType dtype() const {
    return bits == 32 ? DType::fp32 : code == ZEROPROOF_BFLOAT ? DType::bf16 : DType::fp16;
  }

  T* data;
  std::int64_t rows, columns;
  int bits, code;
};

std::string numbered(const char* what, std::int64_t i) {
  return std::string(what).append(std::to_string(i));
}

template <class Choice>
Choice choice(const zeroproof_call* call, const char* name) {
  return static_cast<Choice>(zeroproof_integer(call, name, 255));
}

double real(const zeroproof_call* call, const char* name) {
  return zeroproof_find_setting(call, name)->value.real;
}

/// Calls f(row) for every part of a matrix; without the rule muon there are none.
template <class F>
void for_each_part(const zeroproof_call* call, F f) {
  if (zeroproof_find_operand(call, "matrix_parts") == nullptr) return;
  const Operand<std::uint64_t> parts(call, "matrix_parts");
  for (std::int64_t i = 0; i < parts.rows; ++i) f(parts.data + i * parts.columns);
}

/// Tensors from the table, with arbitrary names; those that are no matrices in one dimension.
FlatLayout layout_of(const zeroproof_call* call) {
  const Operand<std::uint64_t> tensors(call, "tensors");
  std::vector<ParamSpec> specs;
  for (std::int64_t i = 0; i < tensors.rows; ++i) {
    specs.push_back({numbered("t", i), {static_cast<std::int64_t>(tensors.data[4 * i + 1])}});
  }
  for_each_part(call, [&](const std::uint64_t* part) {
    specs[part[0]].shape = {static_cast<std::int64_t>(part[1]), static_cast<std::int64_t>(part[2])};
  });
  return FlatLayout(specs);
}

void read_matrices(const zeroproof_call* call, StepSettings& setup) {
  if (!traits_of(setup.hyper.rule).matrices) return;
  setup.matrix_tensors.resize(setup.layout->tensors().size());
  for_each_part(call, [&](const std::uint64_t* part) {
    MatrixTensor& matrix = setup.matrix_tensors[part[0]];
    matrix.is_matrix = true;
    matrix.by_columns = part[3] != 0;
    matrix.widths.push_back(static_cast<std::int64_t>(part[6]));
  });
  MuonSettings& m = setup.hyper.muon;
  m.family = choice<MomentumFamily>(call, "muon.heavy_ball");
  m.scale = choice<MuonScale>(call, "muon.scale");
  m.scale_factor = real(call, "muon.scale_factor");
  m.newton_schulz = {choice<NewtonSchulzSet>(call, "muon.coefficients"),
                     static_cast<int>(zeroproof_integer(call, "muon.steps", -1)),
                     choice<PolynomialForm>(call, "muon.form"),
                     choice<MatrixFactors>(call, "muon.factors"),
                     choice<NormFloor>(call, "muon.floor"),
                     real(call, "muon.eps"),
                     zeroproof_integer(call, "muon.rounds_first", 2) == 1};
}

void read_groups(const zeroproof_call* call, StepSettings& setup) {
  const Operand<std::uint64_t> tensors(call, "tensors");
  for (std::int64_t i = 0; i < tensors.rows; ++i) {
    setup.groups.of_tensor.push_back(static_cast<int>(tensors.data[4 * i + 2]));
    setup.clip_groups.of_tensor.push_back(static_cast<int>(tensors.data[4 * i + 3]));
  }
  const Operand<double> rates(call, "group_rates"), limits(call, "max_norm");
  for (std::int64_t group = 1; group < rates.rows; ++group) {
    GroupRule rule;
    rule.name = numbered("g", group);
    rule.lr = rates.data[2 * group];
    rule.weight_decay_mult = rates.data[2 * group + 1] == rates.data[1] ? 1 : 0;
    setup.groups.rules.push_back(rule);
  }
  setup.hyper.max_norm = limits.data[0];
  for (std::int64_t group = 1; group < limits.rows; ++group) {
    ClipGroupRule rule;
    rule.name = numbered("c", group);
    rule.max_norm = limits.data[group];
    setup.clip_groups.rules.push_back(rule);
  }
}

StepSettings settings_of(const zeroproof_call* call, const FlatLayout& layout) {
  StepSettings setup;
  setup.layout = &layout;
  OptimizerHyper& h = setup.hyper;
  h.rule = choice<UpdateRule>(call, "rule");
  h.lr = real(call, "lr");
  h.beta1 = zeroproof_real(call, "beta1", 2);
  h.beta2 = zeroproof_real(call, "beta2", 2);
  h.eps = real(call, "eps");
  h.weight_decay = real(call, "weight_decay");
  h.bias_correction = zeroproof_integer(call, "bias_correction", 2) != 0;
  h.amsgrad = zeroproof_integer(call, "amsgrad", 2) != 0;
  h.maximize = zeroproof_integer(call, "maximize", 2) != 0;
  h.nesterov = zeroproof_integer(call, "nesterov", 2) != 0;
  h.momentum = real(call, "momentum");
  h.dampening = real(call, "dampening");
  h.norm = choice<NormForm>(call, "norm_form");
  if (real(call, "clip_value") != 0) h.clip_value = real(call, "clip_value");
  read_groups(call, setup);
  read_matrices(call, setup);
  setup.param_dtype = Operand<void>(call, "param").dtype();
  setup.micro_batches = zeroproof_integer(call, "micro_batches", -1);
  setup.grad_sum = choice<GradSum>(call, "grad_sum");
  setup.on_nonfinite = choice<OnNonfinite>(call, "on_nonfinite");
  setup.missing_grad = choice<MissingGrad>(call, "missing_grad");
  setup.param_rounding = choice<ParamRounding>(call, "param_rounding");
  setup.seed = static_cast<std::uint64_t>(zeroproof_integer(call, "seed", -1));
  if (zeroproof_integer(call, "divisor", -1) != setup.micro_batches)
    setup.loss_reduction = LossReduction::tokens;
  const auto number = [&](const char* name) {
    return static_cast<int>(zeroproof_integer(call, name, -1));
  };
  LossScalerConfig& s = setup.scaler;
  s.kind = choice<LossScalerKind>(call, "scaler.kind");
  s.log2_growth = number("scaler.log2_growth");
  s.log2_backoff = number("scaler.log2_backoff");
  s.log2_initial = s.log2_min = number("scaler.log2_min");
  s.log2_max = number("scaler.log2_max");
  s.growth_interval = number("scaler.growth_interval");
  s.hysteresis = number("scaler.hysteresis");
  s.refill = choice<HysteresisRefill>(call, "scaler.refill");
  return setup;
}

FullState state_of(const zeroproof_call* call) {
  FullState state;
  state.master = Operand<float>(call, "master").span();
  for (const StateSlot slot : all_state_slots)
    state.slots[slot] = Operand<float>(call, std::string(name(slot)).c_str()).span();
  state.tensor_steps = Operand<std::uint64_t>(call, "tensor_steps").span();
  state.applied_steps =
      static_cast<std::int64_t>(*Operand<std::uint64_t>(call, "applied_steps").data);
  const auto* scaler = Operand<std::int32_t>(call, "loss_scaler").data;
  state.scaler = {scaler[0], scaler[1], scaler[2]};
  return state;
}

/// Tokens and gradients of micro-batches; a call has their totals.
reference::MicroBatchFacts facts_of(const zeroproof_call* call, std::size_t micro_batches) {
  const Operand<std::uint32_t> has_grad(call, "has_grad");
  reference::MicroBatchFacts facts;
  facts.num_tokens.resize(micro_batches);
  facts.num_tokens[0] = zeroproof_integer(call, "divisor", -1);
  facts.has_grad.assign(micro_batches, std::vector<bool>(has_grad.rows));
  for (std::int64_t i = 0; i < has_grad.rows; ++i) facts.has_grad[0][i] = has_grad.data[i] != 0;
  return facts;
}

int32_t step(const zeroproof_call* call) {
  const FlatLayout layout = layout_of(call);
  const StepSettings setup = settings_of(call, layout);
  reference::DenseOptimizer optimizer(setup, state_of(call));
  const Operand<std::byte> leaf(call, "leaf_grad");
  std::vector<TensorView> leaves;
  for (std::int64_t j = 0; j < leaf.rows; ++j) {
    leaves.push_back({leaf.data + j * leaf.columns * leaf.bits / 8, leaf.dtype(), leaf.columns});
  }
  const bool applied = optimizer.step(leaves, facts_of(call, leaves.size()));
  const auto keep = [&](const char* name, BufferId id) {
    const TensorView from = optimizer.buffer(id);
    if (from.data != nullptr)
      std::memcpy(Operand<void>(call, name).data, from.data,
                  static_cast<std::size_t>(from.num_bytes()));
  };
  keep("grad_sum", BufferId::grad_sum);
  keep("found_inf", BufferId::found_inf);
  keep("loss_scaler", BufferId::loss_scaler);
  if (!applied) return 0;
  keep("grad_norm", BufferId::grad_norm);
  keep("clip_coef", BufferId::clip_coef);
  for (const StateSlot slot : all_state_slots)
    keep(std::string(name(slot)).c_str(), buffer_of(slot));
  for (const BufferId id : {BufferId::master, BufferId::tensor_steps, BufferId::applied_steps})
    keep(std::string(name(id)).c_str(), id);
  keep("param", BufferId::param_full);
  return 0;
}

int32_t compute(const zeroproof_call* call) {
  try {
    return step(call);
  } catch (const std::exception& error) {
    std::snprintf(call->message, call->message_size, "%s", error.what());
    return 1;
  }
}

constexpr zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "any", nullptr, 0, nullptr, compute};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
