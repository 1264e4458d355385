#include "verification/cases/experiment.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "common/step/scaled_params.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/overflow.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/cli/program/source_dir.hpp"
#include "verification/model/byte_gpt_cuts.hpp"
#include "verification/model/byte_gpt_grid.hpp"
#include "verification/model/byte_gpt_pass.hpp"

namespace zeroproof::verification {
namespace {

/// Steps applied before the initial state.
std::int64_t steps_before(const RunConfig& config) {
  if (config.initial_step >= 0) return config.initial_step;
  return config.initial_state == InitialState::seeded ? 7 : 0;
}

/// Steps after the end of a table use its last rate (R20). A table shorter than the run is
/// therefore refused as a likely mistake.
void require_rates(const RunConfig& config) {
  if (config.schedule.decay != DecayShape::table) return;
  const auto rates = static_cast<std::int64_t>(config.schedule.rates.size());
  const std::int64_t before = steps_before(config);
  const std::string seeded =
      before > 0 ? " after the " + std::to_string(before) + " of its first state" : "";
  ZP_CHECK(config.steps + before <= rates, ErrorCode::config,
           "schedule.rates has " + std::to_string(rates) + " rates for " +
               std::to_string(config.steps) + " steps" + seeded,
           "later steps would use the last rate",
           "give a rate for every step" +
               std::string(before > 0 ? ", or set run.initial_step to 0" : ""));
}

void widen(const TensorView& params, std::vector<float>& target) {
  const auto numel = static_cast<std::size_t>(params.numel);
  target.resize(numel);
  for (std::size_t i = 0; i < numel; ++i)
    target[i] = load_element(params, static_cast<std::int64_t>(i));
}

/// Few cheap steps, of which one is skipped, one clipped and one not; all tensors in one bucket.
void set_uneven(RunConfig& config) {
  constexpr workload::ByteGptShape shape = workload::byte_gpt_uneven;
  config.model = {shape.layers, shape.width, shape.heads, shape.hidden, shape.context};
  config.steps = 4;
  config.micro_batches = 3;
  config.bucket_numels = {524288};
}

}  // namespace

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> names = {"byte_gpt", "byte_gpt_tiny", "byte_gpt_swiglu",
                                                 "byte_gpt_swiglu_tiny", "byte_gpt_uneven"};
  return names;
}

std::string workload_list() {
  const std::vector<std::string>& names = workload_names();
  std::string list = names.front();
  for (std::size_t i = 1; i < names.size(); ++i)
    list += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return list;
}

workload::ByteGptShape model_shape(const std::string& workload, const ModelConfig& extents) {
  const bool swiglu = workload == "byte_gpt_swiglu" || workload == "byte_gpt_swiglu_tiny";
  const int first_hidden =
      workload == "byte_gpt_uneven" ? workload::byte_gpt_uneven.first_hidden : 0;
  return {extents.layers,  extents.width, extents.heads, extents.hidden,
          extents.context, false,         swiglu,        first_hidden};
}

RunConfig workload_defaults(const std::string& workload) {
  if (workload == "byte_gpt" || workload == "byte_gpt_swiglu") {
    RunConfig config = main_config();
    if (workload == "byte_gpt_swiglu") config.model.hidden = workload::byte_gpt_swiglu_main.hidden;
    return config;
  }
  if (workload == "byte_gpt_tiny" || workload == "byte_gpt_swiglu_tiny" ||
      workload == "byte_gpt_uneven") {
    RunConfig config = tiny_config();
    // the trajectory on this text is committed
    config.text = source_dir() + "/verification/model/sample_text.txt";
    if (workload == "byte_gpt_swiglu_tiny")
      config.model.hidden = workload::byte_gpt_swiglu_tiny.hidden;
    if (workload == "byte_gpt_uneven") set_uneven(config);
    return config;
  }
  fail(ErrorCode::config, "workload '" + workload + "' does not exist",
       "it is the first part of a case id", suggestion(workload, workload_names()));
}

workload::Text load_text(const RunConfig& config) {
  const std::int64_t needed = config.model.context + 1;
  return workload::read_text_file(
      config.text.empty() ? source_dir() + "/verification/model/default_text.txt" : config.text,
      needed);
}

Experiment::Experiment(std::string workload, const RunConfig& config, DType dtype,
                       workload::Text text, std::string recipe)
    : workload_(std::move(workload)),
      recipe_(std::move(recipe)),
      config_(config),
      dtype_(dtype),
      text_(std::move(text)),
      shape_(model_shape(workload_, config.model)),
      recorded_(text_.kind == recorded_text_kind ? workload::open_recorded(text_.path) : nullptr),
      layout_(recorded_ ? recorded_->params() : workload::byte_gpt_params(shape_)) {
  require_rates(config_);
  groups_ = make_param_groups(config_.param_groups, config_.schedule, layout_);
  clip_groups_ = make_clip_groups(config_.clip_groups, layout_);
  if (traits_of(config_.optimizer.rule).matrices)
    matrix_tensors_ = make_matrix_tensors(config_.muon_adamw, config_.matrix_splits, layout_);
  if (has_scales(dtype_)) blocks_ = blocks_of(static_cast<const StepSettings&>(setup()));
  overflow_tensor_ = overflow_tensor(config_, layout_);
  // Up to six steps fewer than the optimizer has applied, as for tensors that were idle in some
  // steps.
  for (std::size_t i = 0; i < layout_.tensors().size(); ++i) {
    const std::int64_t steps = initial_step() - 6 + static_cast<std::int64_t>(i % 7);
    tensor_steps_.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(steps, 0)));
  }
}

std::int64_t Experiment::initial_step() const { return steps_before(config_); }

LossScalerConfig Experiment::scaler() const {
  if (dtype_ == DType::fp16) return config_.scaler;
  return {};
}

GradSum Experiment::grad_sum() const {
  const bool binned = config_.grad_sums == std::vector<GradSum>{GradSum::binned};
  return binned ? GradSum::binned : GradSum::tree;
}

OptimizerSetup Experiment::setup() const {
  OptimizerSetup setup;
  setup.layout = &layout_;
  setup.param_dtype = dtype_;
  setup.scaling = config_.scaling;
  setup.grad_dtype = grad_dtype();
  setup.micro_batches = config_.micro_batches;
  setup.hyper = config_.optimizer;
  setup.scaler = scaler();
  setup.loss_reduction = config_.loss_reduction;
  setup.on_nonfinite = config_.on_nonfinite;
  setup.missing_grad = config_.missing_grad;
  setup.param_rounding = config_.param_rounding;
  setup.seed = config_.seed;
  setup.state_formats = config_.state_formats;
  setup.groups = groups_;
  setup.clip_groups = clip_groups_;
  setup.matrix_tensors = matrix_tensors_;
  setup.matrix_owners = config_.matrix_owners;
  setup.matrix_tensor_parallel = config_.matrix_tensor_parallel;
  setup.offload.folder = config_.offload.folder;
  setup.guards = true;
  return setup;
}

std::int64_t Experiment::num_tokens(std::int64_t micro_batch) const {
  const std::int64_t context = config_.model.context;
  return config_.loss_reduction == LossReduction::tokens
             ? std::max<std::int64_t>(context - 3 * (micro_batch % 4), 1)
             : context;
}

bool Experiment::has_grad(std::int64_t step, std::int64_t micro_batch, std::int64_t tensor) const {
  if (!config_.idle_tensors) return true;
  if (tensor % 3 == 1) return step % 2 == 1;
  return tensor % 3 != 2 || micro_batch % 2 == 0;
}

Digest Experiment::text_digest() const {
  if (!recorded_)
    return raw_digest(text_.bytes.data(), static_cast<std::int64_t>(text_.bytes.size()));
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(recorded_->file_bytes()));
  hasher.add(static_cast<std::uint64_t>(recorded_->steps()));
  hasher.add(static_cast<std::uint64_t>(recorded_->micro_batches()));
  for (const ParamSpec& param : recorded_->params()) hasher.add(param.name);
  return hasher.digest();
}

FullState Experiment::initial_state() const {
  const LossScalerConfig scaler = this->scaler();
  FullState state;
  const InitialBuffers::Values& values =
      initial_->get(layout_, config_, [this](std::vector<float>& master) {
        if (recorded_) {
          recorded_->init_parameters(layout_, config_.seed, master);
        } else {
          workload::init_parameters(shape_, layout_, config_.seed, master);
        }
      });
  state.master = values.master;
  for (const StateSlot slot : all_state_slots) state.slots[slot] = values.slots[slot];
  state.tensor_steps = tensor_steps_;
  state.applied_steps = static_cast<std::uint64_t>(initial_step());
  // One step without overflow before a growth, so that a counter lost while loading is detected.
  const bool seeded = config_.initial_state == InitialState::seeded;
  state.scaler = {scaler.kind == LossScalerKind::none ? 0 : scaler.log2_initial,
                  seeded && scaler.kind == LossScalerKind::dynamic ? scaler.growth_interval - 1 : 0,
                  scaler.hysteresis};
  return state;
}

std::vector<FlatRange> Experiment::units(const FlatLayout& layout) const {
  return recorded_ ? std::vector<FlatRange>{} : workload::byte_gpt_units(shape_, layout);
}

std::vector<int> Experiment::visits() const {
  return recorded_ ? std::vector<int>{} : workload::byte_gpt_visits(shape_);
}

TpModel Experiment::tp_model(int tp_size, int tp_rank) const {
  ZP_CHECK(!recorded_, ErrorCode::config,
           "recorded gradients cannot be used on a grid with tensor parallelism",
           "they are recorded as whole tensors", "use tp = 1");
  return workload::byte_gpt_tp_model(shape_, tp_size, tp_rank);
}

bool Experiment::overflows(std::int64_t step, std::int64_t micro_batch) const {
  return step == config_.overflow_step && micro_batch == config_.micro_batches / 2;
}

Experiment::Input Experiment::input(std::int64_t step, std::int64_t micro_batch,
                                    int log2_loss_scale) const {
  Input input{workload::micro_batch_tokens(text_, config_.seed, step - 1, micro_batch,
                                           config_.micro_batches, config_.model.context),
              std::ldexp(1.0F, log2_loss_scale)};
  if (config_.loss_reduction == LossReduction::tokens) {
    // One more byte than tokens: the last one is only predicted. The model returns the mean; the
    // sum is needed here.
    const std::int64_t count = num_tokens(micro_batch);
    input.tokens = input.tokens.first(static_cast<std::size_t>(count) + 1);
    input.scale *= static_cast<float>(count);
  }
  return input;
}

void Experiment::store_leaf(std::int64_t step, std::int64_t micro_batch, const FlatLayout& layout,
                            const std::vector<float>& grad, const TensorView& leaf) const {
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    const bool given = has_grad(step, micro_batch, piece.tensor);
    for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
      const float value = given ? grad[i] : 0.0F;
      store_element(leaf, i, value);
    }
  }
}

double Experiment::micro_batch_grad(std::int64_t step, std::int64_t micro_batch,
                                    const TensorView& params, int log2_loss_scale,
                                    const TensorView& leaf) const {
  double loss = 0;
  if (recorded_) {
    loss = recorded_->micro_batch_grad(step, micro_batch, log2_loss_scale, layout_, leaf);
  } else {
    const Input from = input(step, micro_batch, log2_loss_scale);
    std::vector<float> wide;
    widen(params, wide);
    std::vector<float> grad(wide.size());
    loss = workload::byte_gpt_loss_and_grad<float>(shape_, layout_, wide, from.tokens, from.scale,
                                                   grad);
    store_leaf(step, micro_batch, layout_, grad, leaf);
  }
  if (overflows(step, micro_batch)) plant_infinity(layout_, overflow_tensor_, leaf);
  return loss;
}

double Experiment::leaf_part(std::int64_t step, std::int64_t micro_batch,
                             const workload::ByteGptGroups& groups, const FlatLayout& layout,
                             const TensorView& params, int log2_loss_scale,
                             const TensorView& leaf) const {
  const Input from = input(step, micro_batch, log2_loss_scale);
  std::vector<float> wide;
  widen(params, wide);
  std::vector<float> grad(wide.size());
  const double loss = workload::byte_gpt_grid_loss_and_grad<float>(shape_, groups, layout, wide,
                                                                   from.tokens, from.scale, grad);
  store_leaf(step, micro_batch, layout, grad, leaf);
  if (!overflows(step, micro_batch)) return loss;
  // Into one part only; the others add 0 to it, as their own number may be NaN. The last TP rank has
  // the end of a split tensor.
  const bool cut = overflow_tensor_ >= 0 && workload::byte_gpt_cuts(shape_)[overflow_tensor_] >= 0;
  const int tp = groups.tp == nullptr ? 0 : groups.tp->rank();
  const int last = cut && groups.tp != nullptr ? groups.tp->world_size() - 1 : 0;
  if (tp == last && (groups.cp == nullptr || groups.cp->rank() == 0))
    plant_infinity(layout, overflow_tensor_, leaf);
  else if (tp == last || !cut)
    plant_infinity(layout, overflow_tensor_, leaf, 0);
  return loss;
}

}  // namespace zeroproof::verification
