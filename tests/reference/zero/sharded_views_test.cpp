// The buffers of a rank that observers see, and the effects of overwriting them.

#include <algorithm>
#include <set>

#include "reference/operations.hpp"
#include "tests/reference/alone.hpp"

namespace sharded_views_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// The buffers that the phases expose, for the given buffers of the rule and the norm.
std::vector<std::set<BufferId>> shown_by_phases(int stage, BufferId norm,
                                                std::set<BufferId> update) {
  update.insert({BufferId::master, BufferId::applied_steps});
  return {{BufferId::step_scalars},
          {BufferId::grad_sum},
          {BufferId::unscaled_grad, BufferId::found_inf, BufferId::loss_scaler},
          {norm, BufferId::grad_norm},
          {BufferId::clip_coef, BufferId::grad},
          update,
          {BufferId::param_shard},
          stage == 3 ? std::set<BufferId>{} : std::set<BufferId>{BufferId::param_full}};
}

/// Runs a step and compares the exposed buffers; storage() must have exactly these as well.
void check_shown(Alone& rank, const std::vector<std::set<BufferId>>& expected) {
  rank.make();
  std::set<BufferId> all;
  for (const Phase phase : all_phases) {
    rank.run(phase);
    std::set<BufferId> shown;
    for (const ExposedBuffer& buffer : rank.optimizer->exposed(phase)) {
      CHECK(shown.insert(buffer.id).second);
      CHECK(buffer.view.data == rank.view(buffer.id).data);
      std::int64_t in_ranges = 0;
      for (const FlatRange& range : buffer.ranges) in_ranges += range.numel();
      CHECK((buffer.ranges.empty() || in_ranges == buffer.view.numel));
    }
    CHECK(shown == expected[static_cast<std::size_t>(phase)]);
    all.insert(shown.begin(), shown.end());
  }
  std::set<BufferId> stored_ids;
  std::set<void*> memory;
  for (const ExposedBuffer& buffer : rank.optimizer->storage()) {
    stored_ids.insert(buffer.id);
    memory.insert(buffer.view.data);
  }
  CHECK(stored_ids == all);
  CHECK(memory.size() == all.size());  // distinct memory for each
}

}  // namespace

TEST_CASE("views: every phase exposes the buffers that it writes by R6, for every rule") {
  using enum BufferId;
  for (int stage = 0; stage <= 3; ++stage) {
    const auto check = [&](auto change, BufferId norm, const std::set<BufferId>& update) {
      Alone rank(stage);
      change(rank.setup);
      check_shown(rank, shown_by_phases(stage, norm, update));
    };
    check([](OptimizerSetup&) {}, norm_limbs, {exp_avg, exp_avg_sq});
    check(
        [](OptimizerSetup& s) {
          s.hyper.rule = UpdateRule::adam;
          s.hyper.amsgrad = true;
          s.hyper.norm = NormForm::exact;
        },
        norm_limbs, {exp_avg, exp_avg_sq, max_exp_avg_sq});
    check(
        [](OptimizerSetup& s) {
          s.hyper.rule = UpdateRule::sgd;
          s.hyper.norm = NormForm::inf;
        },
        grad_amax, {});
    check(
        [](OptimizerSetup& s) {
          s.hyper.rule = UpdateRule::sgd;
          s.hyper.momentum = 0.5;
          s.missing_grad = MissingGrad::skip;
          s.hyper.norm = NormForm::one;
        },
        norm_limbs, {momentum_buffer, tensor_steps});
    check([](OptimizerSetup& s) { s.hyper.rule = UpdateRule::sgd_ema; }, norm_limbs, {exp_avg});
    check([](OptimizerSetup& s) { s.hyper.rule = UpdateRule::lamb; }, norm_limbs,
          {trust_ratio, exp_avg, exp_avg_sq});
  }
}

TEST_CASE("views: every form of the norm has its own integers") {
  for (const NormForm form : {NormForm::chunk1024, NormForm::exact, NormForm::one, NormForm::inf}) {
    Alone rank(1);
    rank.setup.hyper.norm = form;
    rank.make();
    rank.run_up_to(Phase::norm);
    const auto* const values = static_cast<const float*>(rank.view(BufferId::unscaled_grad).data);
    NormLimbs limbs;
    std::uint32_t amax = 0;
    for (const Piece& piece : rank.layout.pieces({{0, rank.layout.padded_numel()}})) {
      const Span<const float> grad(values + piece.local_begin,
                                   static_cast<std::size_t>(piece.numel));
      if (form == NormForm::chunk1024) reference::grad_norm_accumulate({}, grad, limbs);
      if (form == NormForm::exact) reference::grad_norm_exact_accumulate({}, grad, limbs);
      if (form == NormForm::one) reference::grad_abs_accumulate({}, grad, limbs);
      if (form == NormForm::inf) reference::grad_max_accumulate({}, grad, amax);
    }
    reference::grad_norm_normalise(limbs);
    const double norm = read<double>(rank.view(BufferId::grad_norm));
    if (form == NormForm::inf) {
      CHECK(read<std::uint32_t>(rank.view(BufferId::grad_amax)) == amax);
      CHECK(norm == reference::grad_max_finish(amax));
    } else {
      CHECK(read<NormLimbs>(rank.view(BufferId::norm_limbs)) == limbs);
      CHECK(norm == (form == NormForm::one ? reference::grad_abs_finish(limbs)
                                           : reference::grad_norm_finish(limbs)));
    }
  }
}

TEST_CASE("views: types and lengths") {
  Alone rank(1);
  rank.setup.hyper.rule = UpdateRule::sgd;
  rank.setup.hyper.momentum = 0.5;
  rank.make();
  const auto has = [&](BufferId id, DType dtype, std::int64_t numel) {
    return rank.view(id).dtype == dtype && rank.view(id).numel == numel;
  };
  CHECK(has(BufferId::step_scalars, DType::u32, 15));
  CHECK(has(BufferId::applied_steps, DType::u64, 1));
  CHECK(has(BufferId::found_inf, DType::u32, 1));
  CHECK(has(BufferId::loss_scaler, DType::u32, 3));
  CHECK(has(BufferId::norm_limbs, DType::u64, 23));
  CHECK(has(BufferId::grad_norm, DType::fp64, 1));
  CHECK(has(BufferId::clip_coef, DType::fp32, 1));
  CHECK(has(BufferId::momentum_buffer, DType::fp32, 7168));
  CHECK(has(BufferId::master, DType::fp32, 7168));
  CHECK(has(BufferId::param_shard, DType::bf16, 7168));
  CHECK(has(BufferId::param_full, DType::bf16, 7168));

  rank.setup.missing_grad = MissingGrad::skip;
  rank.setup.hyper.norm = NormForm::inf;
  rank.make();
  const void* const before = rank.view(BufferId::step_scalars).data;
  CHECK(has(BufferId::step_scalars, DType::u32, 5 * 15));
  CHECK(has(BufferId::tensor_steps, DType::u64, 5));
  CHECK(has(BufferId::grad_amax, DType::u32, 1));
  rank.run_up_to(Phase::gather);
  CHECK(rank.view(BufferId::step_scalars).data == before);  // views keep their address
}

TEST_CASE(
    "views: later phases read values that an observer wrote, also in norm and rounding buffers") {
  for (int stage = 0; stage <= 3; ++stage) {
    Alone rank(stage);
    rank.setup.hyper.rule = UpdateRule::sgd;
    rank.setup.hyper.momentum = 0.5;
    rank.setup.hyper.weight_decay = 0;
    rank.setup.missing_grad = MissingGrad::skip;
    rank.setup.param_rounding = ParamRounding::stochastic;
    rank.make();
    auto steps = read<std::array<std::uint64_t, 5>>(rank.view(BufferId::tensor_steps));
    CHECK(steps == std::array<std::uint64_t, 5>{0, 1, 2, 3, 0});
    steps[0] = 6;
    write(rank.view(BufferId::tensor_steps), steps);
    rank.run(Phase::prepare);
    auto scalars = read<std::array<StepScalars, 5>>(rank.view(BufferId::step_scalars));
    CHECK(scalars[0].is_first == 0);
    CHECK(scalars[4].is_first == 1);
    scalars[0].momentum = 2;
    scalars[0].lr = 1;
    write(rank.view(BufferId::step_scalars), scalars);
    for (const Phase phase : {Phase::reduce, Phase::unscale, Phase::norm, Phase::clip})
      rank.run(phase);
    write(rank.view(BufferId::grad), 0.25F);  // element 0 is in tensor 0
    write(rank.view(BufferId::momentum_buffer), 4.0F);
    write(rank.view(BufferId::master), 16.0F);
    rank.run(Phase::update);
    CHECK(rank.value(BufferId::momentum_buffer) == 8.25F);
    CHECK(rank.value(BufferId::master) == 7.75F);
    steps = read<std::array<std::uint64_t, 5>>(rank.view(BufferId::tensor_steps));
    CHECK(steps == std::array<std::uint64_t, 5>{7, 2, 3, 4, 1});

    // The draw of the cast is that of the count that an observer wrote.
    write(rank.view(BufferId::master), 1 + 0x1p-8F);
    for (std::uint64_t count = 0; count < 20; ++count) {
      steps[0] = count;
      write(rank.view(BufferId::tensor_steps), steps);
      rank.run(Phase::cast);
      const Philox philox(rank.setup.seed, 0x53520001U, static_cast<std::uint32_t>(count));
      CHECK(element_bits(rank.view(BufferId::param_shard), 0) == 0x3F80U + (philox.word(0) >> 31));
    }
  }
}

TEST_CASE("views: later phases read values that an observer wrote") {
  for (int stage = 0; stage <= 3; ++stage) {
    Alone rank(stage);
    rank.setup.persistent_numel = 37;  // in stage 3 element 0 is persistent
    rank.make();
    rank.run(Phase::prepare);
    StepScalars scalars = read<StepScalars>(rank.view(BufferId::step_scalars));
    scalars.inv_scale = 0.5F;
    scalars.step_size = 2.0F;
    scalars.has_decay = 0;
    write(rank.view(BufferId::step_scalars), scalars);

    rank.run(Phase::reduce);
    write(rank.view(BufferId::grad_sum), 12.0F);  // element 0 from here on
    rank.run(Phase::unscale);
    CHECK(rank.value(BufferId::unscaled_grad) == 6.0F);

    write(rank.view(BufferId::unscaled_grad), 3.0F);
    rank.run(Phase::norm);
    const NormLimbs limbs = read<NormLimbs>(rank.view(BufferId::norm_limbs));
    write(rank.view(BufferId::unscaled_grad), 0.0F);
    rank.run(Phase::norm);
    CHECK_FALSE(read<NormLimbs>(rank.view(BufferId::norm_limbs)) == limbs);

    write(rank.view(BufferId::unscaled_grad), 3.0F);
    write(rank.view(BufferId::grad_norm), 8.0 - 1e-6);
    rank.run(Phase::clip);
    CHECK(rank.value(BufferId::clip_coef) == 0.25F);
    CHECK(rank.value(BufferId::grad) == 0.75F);

    write(rank.view(BufferId::grad), 0.0F);
    write(rank.view(BufferId::exp_avg), 0.0F);
    write(rank.view(BufferId::master), 1.5F);
    write(rank.view(BufferId::applied_steps), std::uint64_t{41});
    rank.run(Phase::update);
    CHECK(rank.value(BufferId::master) == 1.5F);  // no gradient, no decay
    CHECK(rank.optimizer->applied_steps() == 42);

    write(rank.view(BufferId::master), 2.5F);
    rank.run(Phase::cast);
    CHECK(element_bits(rank.view(BufferId::param_shard), 0) == 0x4020);
    write(rank.view(BufferId::param_shard), bf16{0x4040});
    rank.run(Phase::gather);
    CHECK(element_bits(rank.view(BufferId::param_full), 0) == 0x4040);

    write(rank.view(BufferId::loss_scaler), LossScalerState{7, 0, 1});
    write(rank.view(BufferId::applied_steps), std::uint64_t{0});
    CHECK(rank.optimizer->loss_scaler().log2_scale == 7);
    rank.run(Phase::prepare);
    CHECK(read<StepScalars>(rank.view(BufferId::step_scalars)).inv_scale == 0x1p-7F);
  }
}

TEST_CASE("views: found_inf decides whether the rest of the step runs") {
  Alone rank(1);
  rank.make();
  rank.run_up_to(Phase::unscale);
  CHECK_FALSE(rank.optimizer->skipped());
  write(rank.view(BufferId::found_inf), std::uint32_t{1});
  CHECK(rank.optimizer->skipped());
  for (const Phase phase : {Phase::norm, Phase::clip, Phase::update, Phase::cast, Phase::gather}) {
    ZP_CHECK_INVALID(rank.run(phase));
  }
  rank.run(Phase::prepare);
  CHECK_FALSE(rank.optimizer->skipped());

  rank.leaves.kind.overflow_step = rank.leaves.step;
  rank.run(Phase::reduce);
  write(rank.view(BufferId::grad_norm), 1.0);
  write(rank.view(BufferId::clip_coef), 1.0F);
  rank.run(Phase::unscale);
  CHECK(rank.optimizer->skipped());
  CHECK(std::isnan(read<double>(rank.view(BufferId::grad_norm))));
  CHECK(std::isnan(rank.value(BufferId::clip_coef)));
}

TEST_CASE("views: found_inf stays visible under propagate, and does not stop the step") {
  for (int stage = 0; stage <= 3; ++stage) {
    Alone rank(stage);
    rank.setup.on_nonfinite = OnNonfinite::propagate;
    rank.make();
    rank.leaves.kind.overflow_step = rank.leaves.step;
    rank.run_up_to(Phase::unscale);
    CHECK(read<std::uint32_t>(rank.view(BufferId::found_inf)) == 1);
    CHECK_FALSE(rank.optimizer->skipped());
    CHECK(rank.optimizer->loss_scaler().log2_scale == 2);
    for (const Phase phase : {Phase::norm, Phase::clip, Phase::update, Phase::cast, Phase::gather})
      rank.run(phase);
    CHECK(read<double>(rank.view(BufferId::grad_norm)) == inf64);
    CHECK(read<std::uint32_t>(rank.view(BufferId::found_inf)) == 1);
    CHECK(rank.optimizer->applied_steps() == 6);
    rank.run(Phase::prepare);
    CHECK(read<std::uint32_t>(rank.view(BufferId::found_inf)) == 0);
  }
}

}  // namespace sharded_views_test
