// What taps see of a rank, and what happens when they overwrite it.

#include <algorithm>
#include <set>

#include "common/contracts/grad_norm.hpp"
#include "tests/reference/distributed_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("views: every phase shows what R6 says it writes") {
  const std::vector<std::vector<BufferId>> expected = {
      {BufferId::step_scalars},
      {BufferId::grad_sum},
      {BufferId::unscaled_grad, BufferId::found_inf, BufferId::loss_scaler},
      {BufferId::norm_limbs, BufferId::grad_norm},
      {BufferId::clip_coef, BufferId::grad},
      {BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::master, BufferId::applied_steps},
      {BufferId::param_shard},
      {BufferId::param_full}};
  for (int stage = 0; stage <= 2; ++stage) {
    Alone rank(stage);
    rank.make();
    for (const Phase phase : all_phases) {
      rank.run(phase);
      std::set<BufferId> shown;
      for (const ExposedBuffer& buffer : rank.optimizer->exposed(phase)) {
        shown.insert(buffer.id);
        CHECK(buffer.view.data == rank.view(buffer.id).data);
        std::int64_t in_ranges = 0;
        for (const FlatRange& range : buffer.ranges) in_ranges += range.numel();
        CHECK((buffer.ranges.empty() || in_ranges == buffer.view.numel));
      }
      const std::vector<BufferId>& ids = expected[static_cast<std::size_t>(phase)];
      CHECK(shown == std::set<BufferId>(ids.begin(), ids.end()));
    }
  }
}

TEST_CASE("views: types, lengths, and one piece of memory each") {
  Alone rank(1);
  rank.make();
  const auto has = [&](BufferId id, DType dtype, std::int64_t numel) {
    return rank.view(id).dtype == dtype && rank.view(id).numel == numel;
  };
  CHECK(has(BufferId::step_scalars, DType::u32, 10));
  CHECK(has(BufferId::applied_steps, DType::u64, 1));
  CHECK(has(BufferId::found_inf, DType::u32, 1));
  CHECK(has(BufferId::loss_scaler, DType::u32, 3));
  CHECK(has(BufferId::norm_limbs, DType::u64, 23));
  CHECK(has(BufferId::grad_norm, DType::fp64, 1));
  CHECK(has(BufferId::clip_coef, DType::fp32, 1));
  CHECK(has(BufferId::master, DType::fp32, 7168));
  CHECK(has(BufferId::param_shard, DType::bf16, 7168));
  CHECK(has(BufferId::param_full, DType::bf16, 7168));
  std::set<void*> memory;
  for (const ExposedBuffer& buffer : rank.optimizer->storage()) memory.insert(buffer.view.data);
  CHECK(memory.size() == num_buffer_ids);
}

TEST_CASE("views: later phases read what a tap wrote") {
  for (int stage = 0; stage <= 2; ++stage) {
    Alone rank(stage);
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

TEST_CASE("views: found_inf decides about the rest of the step") {
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

  rank.leaves.overflow = true;
  rank.run(Phase::reduce);
  write(rank.view(BufferId::grad_norm), 1.0);
  write(rank.view(BufferId::clip_coef), 1.0F);
  rank.run(Phase::unscale);
  CHECK(rank.optimizer->skipped());
  CHECK(std::isnan(read<double>(rank.view(BufferId::grad_norm))));
  CHECK(std::isnan(rank.value(BufferId::clip_coef)));
}
