#include "reference/distributed_optimizer.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "reference/adam.hpp"
#include "reference/buffers.hpp"
#include "reference/clip.hpp"
#include "reference/grad_norm.hpp"
#include "reference/grad_scale.hpp"
#include "reference/gradient_exchange.hpp"
#include "reference/loss_scaler.hpp"
#include "reference/step_scalars.hpp"

namespace zeroproof::reference {
namespace {

/// The words of a struct of 32- or 64-bit values, as a tap sees them.
template <class T>
TensorView scalar_view(T& value, DType dtype) {
  return {&value, dtype, static_cast<std::int64_t>(sizeof(T)) / num_bytes(dtype)};
}

TensorView array_view(std::vector<float>& values) {
  return {values.data(), DType::fp32, static_cast<std::int64_t>(values.size())};
}

/// The phases of one rank. Every value that a phase leaves behind is a member, and later phases read it from there
/// and from nowhere else: whoever overwrites an exposed view decides what the rest of the step works with.
class ShardedOptimizer final : public DistributedOptimizer {
 public:
  explicit ShardedOptimizer(const OptimizerSetup& setup);

  void load_state(const FullState& state) override;
  void run_phase(Phase phase, LeafSource& leaves) override;
  bool skipped() const override { return found_inf_ != 0; }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  LossScalerState loss_scaler() const override { return scaler_; }
  std::int64_t applied_steps() const override { return static_cast<std::int64_t>(applied_steps_); }

 private:
  void prepare();
  void reduce(LeafSource& leaves);
  void unscale();
  void norm();
  void clip();
  void update();
  void cast();
  void gather();
  ExposedBuffer buffer(BufferId id);

  OptimizerSetup setup_;
  std::vector<FlatRange> ranges_;  // what this rank's buffers hold: its shard, in stage 0 everything
  std::vector<Piece> pieces_;      // the tensor elements in ranges_; all arithmetic walks these
  bool loaded_ = false;

  // One member for every BufferId.
  StepScalars scalars_{};
  std::uint64_t applied_steps_ = 0;
  std::uint32_t found_inf_ = 0;
  LossScalerState scaler_;
  NormLimbs limbs_;
  double grad_norm_ = std::numeric_limits<double>::quiet_NaN();
  float clip_coef_ = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> grad_sum_, unscaled_grad_, grad_;
  std::vector<float> exp_avg_, exp_avg_sq_, master_;
  ParamBuffer param_shard_, param_full_;
};

static_assert(sizeof(StepScalars) == 10 * sizeof(std::uint32_t) && sizeof(NormLimbs) == 23 * sizeof(std::uint64_t) &&
                  sizeof(LossScalerState) == 3 * sizeof(std::int32_t),
              "these structs are exposed as words, without gaps");

void check_setup(const OptimizerSetup& setup) {
  const auto check = [](bool ok, const std::string& problem, const std::string& why, const std::string& remedy) {
    ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
  };
  check(setup.layout != nullptr && setup.shards != nullptr && setup.comm != nullptr,
        "the optimizer has no layout, shard map or communicator", "it cannot know which elements it owns",
        "set all three in OptimizerSetup");
  check(setup.stage >= 0 && setup.stage <= 2, "the ZeRO stage is " + std::to_string(setup.stage),
        "only state and gradients are sharded here", "use 0, 1 or 2");
  check(setup.micro_batches >= 1, "micro_batches is " + std::to_string(setup.micro_batches),
        "a step needs a gradient", "use 1 or more");
  check(setup.leaf_dtype == DType::fp32 || setup.leaf_dtype == DType::bf16 || setup.leaf_dtype == DType::fp16,
        "the leaf dtype is " + std::string(name(setup.leaf_dtype)), "gradients are fp32, bf16 or fp16",
        "choose one of these");
  check(setup.shards->padded_numel() == setup.layout->padded_numel(),
        "the shard map covers " + std::to_string(setup.shards->padded_numel()) + " elements and the layout has " +
            std::to_string(setup.layout->padded_numel()),
        "every element needs one owner", "make the shard map from this layout");
  check(setup.shards->world_size() == setup.comm->world_size(),
        "the shard map is for " + std::to_string(setup.shards->world_size()) + " ranks and there are " +
            std::to_string(setup.comm->world_size()),
        "every shard needs a rank", "make the shard map for this communicator");
}

ShardedOptimizer::ShardedOptimizer(const OptimizerSetup& setup) : setup_(setup) {
  check_setup(setup);
  const std::int64_t padded_numel = setup.layout->padded_numel();
  ranges_ = setup.stage == 0 ? std::vector<FlatRange>{{0, padded_numel}} : setup.shards->shard(setup.comm->rank());
  pieces_ = setup.layout->pieces(ranges_);

  scaler_ = loss_scaler_init(setup.scaler);
  // The result is not needed yet, but a hyper-parameter out of range should not wait for the first step.
  step_scalars(setup.hyper, 1, scaler_.log2_scale, setup.micro_batches);

  const std::int64_t numel = setup.stage == 0 ? padded_numel : setup.shards->shard_numel(setup.comm->rank());
  for (std::vector<float>* values : {&grad_sum_, &unscaled_grad_, &grad_, &exp_avg_, &exp_avg_sq_, &master_}) {
    *values = nan_buffer(numel);
  }
  param_shard_ = ParamBuffer(setup.param_dtype, numel);
  param_full_ = ParamBuffer(setup.param_dtype, padded_numel);
}

void ShardedOptimizer::load_state(const FullState& state) {
  const std::int64_t padded_numel = setup_.layout->padded_numel();
  for (const Span<const float> view : {state.master, state.exp_avg, state.exp_avg_sq}) {
    ZP_CHECK(numel(view) == padded_numel, ErrorCode::invalid_argument,
             "a loaded state has " + std::to_string(view.size()) + " elements",
             "the layout has " + std::to_string(padded_numel) + " with padding", "pass [padded_numel]");
  }
  ZP_CHECK(state.applied_steps >= 0, ErrorCode::invalid_argument,
           "applied_steps is " + std::to_string(state.applied_steps), "it counts steps", "pass 0 or more");

  for (const Piece& piece : pieces_) {
    const auto load = [&](Span<const float> full, std::vector<float>& shard) {
      const std::size_t begin = static_cast<std::size_t>(piece.global_begin);
      std::ranges::copy(full.subspan(begin, static_cast<std::size_t>(piece.numel)), at(shard, piece).begin());
    };
    load(state.master, master_);
    load(state.exp_avg, exp_avg_);
    load(state.exp_avg_sq, exp_avg_sq_);
  }
  applied_steps_ = static_cast<std::uint64_t>(state.applied_steps);
  scaler_ = state.scaler;
  found_inf_ = 0;
  param_shard_.round_from(master_, pieces_);
  // The whole master is at hand, so nobody has to be asked: loading is not a collective call.
  param_full_.round_from(state.master, setup_.layout->pieces({{0, padded_numel}}));
  loaded_ = true;
}

void ShardedOptimizer::run_phase(Phase phase, LeafSource& leaves) {
  require_fp_environment("reference rank " + std::to_string(setup_.comm->rank()));
  ZP_CHECK(loaded_, ErrorCode::invalid_argument, "phase " + std::string(name(phase)) + " runs before load_state",
           "there is nothing to optimise yet", "call load_state once before the first step");
  ZP_CHECK(!(skipped() && skipped_on_overflow(phase)), ErrorCode::invalid_argument,
           "phase " + std::string(name(phase)) + " runs on a step with an overflow",
           "no bit of the state may change (R6)", "go on with prepare of the next step");
  switch (phase) {
    case Phase::prepare: return prepare();
    case Phase::reduce: return reduce(leaves);
    case Phase::unscale: return unscale();
    case Phase::norm: return norm();
    case Phase::clip: return clip();
    case Phase::update: return update();
    case Phase::cast: return cast();
    case Phase::gather: return gather();
  }
}

void ShardedOptimizer::prepare() {
  found_inf_ = 0;
  scalars_ = step_scalars(setup_.hyper, applied_steps() + 1, scaler_.log2_scale, setup_.micro_batches);
}

void ShardedOptimizer::reduce(LeafSource& leaves) {
  if (setup_.stage == 2) {
    grad_sum_ = reduce_strided(setup_, leaves);
  } else if (setup_.stage == 1) {
    grad_sum_ = reduce_contiguous(setup_, leaves);
  } else {
    // The owners sum their shards as in stage 1, then everybody gets everything (R11).
    std::vector<float> owned = reduce_contiguous(setup_, leaves);
    gather_shards(setup_, array_view(owned), array_view(grad_sum_));
  }
}

void ShardedOptimizer::unscale() {
  bool found = false;
  for (const Piece& piece : pieces_) {
    const bool found_here =
        reference::unscale({}, scalars_.inv_scale, at(grad_sum_, piece), at(unscaled_grad_, piece));
    found = found || found_here;
  }
  // Stage 0 would not have to ask, but then one broken rank would skip alone.
  std::uint64_t flag = found ? 1 : 0;
  setup_.comm->all_reduce({&flag, 1}, IntegerReduce::bitwise_or);
  found_inf_ = flag != 0 ? 1 : 0;

  scaler_ = loss_scaler_update(setup_.scaler, scaler_, skipped());
  if (skipped()) {
    grad_norm_ = std::numeric_limits<double>::quiet_NaN();
    clip_coef_ = std::numeric_limits<float>::quiet_NaN();
  }
}

void ShardedOptimizer::norm() {
  limbs_ = NormLimbs{};
  for (const Piece& piece : pieces_) grad_norm_accumulate({}, at(unscaled_grad_, piece), limbs_);
  grad_norm_normalise(limbs_);
  if (setup_.stage != 0) {  // in stage 0 every rank has counted everything
    auto words = std::bit_cast<std::array<std::uint64_t, 23>>(limbs_);
    setup_.comm->all_reduce(words, IntegerReduce::sum);
    limbs_ = std::bit_cast<NormLimbs>(words);
    grad_norm_normalise(limbs_);
  }
  grad_norm_ = grad_norm_finish(limbs_);
}

void ShardedOptimizer::clip() {
  clip_coef_ = clip_coef(grad_norm_, setup_.hyper.max_norm);
  for (const Piece& piece : pieces_) reference::clip({}, clip_coef_, at(unscaled_grad_, piece), at(grad_, piece));
}

void ShardedOptimizer::update() {
  for (const Piece& piece : pieces_) {
    adamw_update({}, scalars_, at(grad_, piece), at(master_, piece), at(exp_avg_, piece), at(exp_avg_sq_, piece));
  }
  applied_steps_ += 1;
}

void ShardedOptimizer::cast() { param_shard_.round_from(master_, pieces_); }

void ShardedOptimizer::gather() {
  if (setup_.stage == 0) {
    unpack(pack(param_shard_.view(), ranges_), ranges_, param_full_.view());  // already everything: a copy
  } else {
    gather_shards(setup_, param_shard_.view(), param_full_.view());
  }
}

ExposedBuffer ShardedOptimizer::buffer(BufferId id) {
  switch (id) {
    case BufferId::step_scalars: return {id, scalar_view(scalars_, DType::u32), {}};
    case BufferId::applied_steps: return {id, scalar_view(applied_steps_, DType::u64), {}};
    case BufferId::found_inf: return {id, scalar_view(found_inf_, DType::u32), {}};
    case BufferId::loss_scaler: return {id, scalar_view(scaler_, DType::u32), {}};
    case BufferId::norm_limbs: return {id, scalar_view(limbs_, DType::u64), {}};
    case BufferId::grad_norm: return {id, scalar_view(grad_norm_, DType::fp64), {}};
    case BufferId::clip_coef: return {id, scalar_view(clip_coef_, DType::fp32), {}};
    case BufferId::grad_sum: return {id, array_view(grad_sum_), ranges_};
    case BufferId::unscaled_grad: return {id, array_view(unscaled_grad_), ranges_};
    case BufferId::grad: return {id, array_view(grad_), ranges_};
    case BufferId::exp_avg: return {id, array_view(exp_avg_), ranges_};
    case BufferId::exp_avg_sq: return {id, array_view(exp_avg_sq_), ranges_};
    case BufferId::master: return {id, array_view(master_), ranges_};
    case BufferId::param_shard: return {id, param_shard_.view(), ranges_};
    case BufferId::param_full: return {id, param_full_.view(), {{0, setup_.layout->padded_numel()}}};
  }
  fail(ErrorCode::internal, "a buffer has no name", "taps ask for named buffers only", "report this as a defect");
}

/// Which buffers a phase writes, in the order in which it does.
std::vector<BufferId> written_by(Phase phase) {
  switch (phase) {
    case Phase::prepare: return {BufferId::step_scalars};
    case Phase::reduce: return {BufferId::grad_sum};
    case Phase::unscale: return {BufferId::unscaled_grad, BufferId::found_inf, BufferId::loss_scaler};
    case Phase::norm: return {BufferId::norm_limbs, BufferId::grad_norm};
    case Phase::clip: return {BufferId::clip_coef, BufferId::grad};
    case Phase::update:
      return {BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::master, BufferId::applied_steps};
    case Phase::cast: return {BufferId::param_shard};
    case Phase::gather: return {BufferId::param_full};
  }
  return {};
}

std::vector<ExposedBuffer> ShardedOptimizer::exposed(Phase phase) {
  std::vector<ExposedBuffer> buffers;
  for (const BufferId id : written_by(phase)) buffers.push_back(buffer(id));
  return buffers;
}

std::vector<ExposedBuffer> ShardedOptimizer::storage() {
  std::vector<ExposedBuffer> buffers;
  for (int id = 0; id < num_buffer_ids; ++id) buffers.push_back(buffer(static_cast<BufferId>(id)));
  return buffers;
}

}  // namespace

std::unique_ptr<DistributedOptimizer> make_distributed_optimizer(const OptimizerSetup& setup) {
  return std::make_unique<ShardedOptimizer>(setup);
}

}  // namespace zeroproof::reference
