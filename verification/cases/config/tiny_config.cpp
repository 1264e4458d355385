// The small workload. Committed digests, faults and traces depend on it, so every field is assigned
// here: a changed default of a type or of the main job must not move them.

#include "verification/cases/config/config.hpp"

namespace zeroproof {
namespace {

void set_run(RunConfig& c) {
  c.seed = 1;
  c.steps = 6;
  c.micro_batches =
      7;  // three nodes remain to be folded, the smallest number for which order matters
  c.stages = {0, 1, 2, 3};
  c.worlds = {"self", "threads:3", "mpi:2"};
  c.grids = {};
  c.orders = {MicroBatchOrder::by_stage};
  c.layouts = {LayoutKind::contract};
  c.grad_sums = {GradSum::tree};
  c.windows = {Windows::on};
  c.transport = {Transport::copies};
  c.instances = 1;
  c.persistent_numel = 0;
  c.overlap = false;
  c.dtypes = {DType::bf16, DType::fp16};
  c.bucket_numels = {4096};
  c.omp_threads = {0};
  c.initial_state = InitialState::seeded;
  c.initial_step = -1;
  // One element on one rank overflows, in every dtype, so a check that misses an element or a rank
  // is detected.
  c.overflow_step = 3;
  c.overflow_tensor = "";
  c.idle_tensors = false;
  c.loss_reduction = LossReduction::mean;
  c.on_nonfinite = OnNonfinite::skip;
  c.missing_grad = MissingGrad::zero;
  c.param_rounding = ParamRounding::nearest;
  c.text = "";
  c.comm_timeout_s = 60;
  c.param_groups = {};
  c.clip_groups = {};
  c.muon_adamw = {"*embedding*", "head.*"};
  c.matrix_splits = {};
  c.matrix_owners = MatrixOwners::every;
  c.matrix_tensor_parallel = MatrixTensorParallel::duplicated;
}

void set_offload(OffloadConfig& o) {
  o.fractions = {0};
  o.orders = {OffloadOrder::flat};
  o.places = {OffloadPlace::host};
  o.chunk_numels = {262144};
  o.overlaps = {true};
  o.grads = {false};
  o.folder = "";
}

void set_model(ModelConfig& m) {
  m.layers = 2;
  m.width = 15;
  m.heads = 3;
  m.hidden = 37;
  m.context = 13;
}

void set_scaling(ParamScaling& s) {
  s.recipe = ScaleRecipe::current;
  s.value = QuantizedValue::direct;
  s.initial_master = InitialMaster::high_precision;
  s.columnwise = false;
  s.epsilon = 0;
  s.power_of_two = false;
  s.blocks = ScaleBlocks::square_128;
  s.margin = 0;
  s.history = 1024;
  s.choice = AmaxChoice::max;
  s.empty = EmptyAmax::keep;
}

void set_muon(MuonSettings& m) {
  m.family = MomentumFamily::ema;
  m.newton_schulz.coefficients = NewtonSchulzSet::simple;
  m.newton_schulz.steps = 5;
  m.newton_schulz.form = PolynomialForm::fused;
  m.newton_schulz.factors = MatrixFactors::bf16;
  m.newton_schulz.floor = NormFloor::clamp;
  m.newton_schulz.eps = 1e-7;
  m.newton_schulz.rounds_first = false;
  m.scale = MuonScale::original;
  m.scale_factor = 1;
}

void set_optimizer(OptimizerHyper& o) {
  o.rule = UpdateRule::adamw;
  o.lr = 1e-2;
  o.beta1 = 0.9F;
  o.beta2 = 0.95F;
  o.eps = 1e-8;
  o.weight_decay = 0.01;
  o.bias_correction = true;
  o.amsgrad = false;
  o.maximize = false;
  o.momentum = 0;
  o.dampening = 0;
  o.nesterov = false;
  set_muon(o.muon);
  o.norm = NormForm::chunk1024;
  o.max_norm = 0.52;  // binds on some steps only
  o.clip_value = std::nullopt;
}

void set_state_formats(StateFormats& f) {
  f.exp_avg = StateFormat::fp32;
  f.exp_avg_sq = StateFormat::fp32;
  f.master = MasterFormat::fp32;
}

void set_scaler(LossScalerConfig& s) {
  s.kind = LossScalerKind::dynamic;
  s.log2_initial = 12;
  s.log2_growth = 1;
  s.log2_backoff = 1;
  s.log2_min = 0;
  s.log2_max = 24;
  s.growth_interval = 2;
  s.hysteresis = 1;
  s.refill = HysteresisRefill::growth;
}

void set_schedule(ScheduleConfig& s) {
  s.unit = ScheduleUnit::steps;
  s.first_is_zero = false;
  s.warmup = 0;
  s.warmup_init_lr = 0;
  s.warmup_shape = WarmupShape::linear;
  s.decay = DecayShape::constant;
  s.decay_end = 0;
  s.min_lr = 0;
  s.wsd_decay = 0;
  s.wsd_shape = WsdShape::linear;
  s.weight_decay_ramp = RampShape::constant;
  s.weight_decay_begin = 0;
  s.weight_decay_end = 0;
  s.rates = {};
}

}  // namespace

void set_tiny(RunConfig& config) {
  set_run(config);
  set_offload(config.offload);
  set_model(config.model);
  set_scaling(config.scaling);
  set_optimizer(config.optimizer);
  set_state_formats(config.state_formats);
  set_scaler(config.scaler);
  set_schedule(config.schedule);
}

RunConfig tiny_config() {
  RunConfig config;
  set_tiny(config);
  return config;
}

}  // namespace zeroproof
