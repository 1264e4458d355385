// Clip groups (R12): every group has the norm of its own elements and is scaled by its own coefficient.

#include "cuda/host/operations.hpp"
#include "tests/cuda/optimizer/production_world.hpp"

#include <cstring>

namespace step_clip_groups_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// Of the seven tensors of odd_layout. The third group has one without elements.
ClipGroups four_groups() {
  ClipGroups groups;
  groups.rules = {{"shared", {}, false, {}}, {"free", {}, false, 0.0}, {"empty", {}, false, 1e-4}};
  groups.of_tensor = {0, 1, 3, 2, 0, 1, 2};
  return groups;
}

World clipped_world(const Grid& grid, int stage, bool fused, NormForm form) {
  World world = production_world(grid, 4);
  world.make = production(fused);
  world.setup.stage = stage;
  world.setup.clip_groups = four_groups();
  world.setup.hyper.norm = form;
  world.setup.hyper.max_norm = 0.125;
  return world;
}

/// Results of the operations over the elements of one group only.
double norm_of_group(NormForm form, const TensorView& grad, const ClipGroups& groups, int group) {
  NormLimbs limbs;
  std::uint32_t amax = 0;
  const FlatLayout& layout = odd_layout();
  for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
    if (groups.of_tensor[t] != group) continue;
    const TensorSlot& slot = layout.tensors()[t];
    const Span<const float> values(static_cast<const float*>(grad.data) + slot.begin,
                                   static_cast<std::size_t>(slot.numel));
    if (form == NormForm::chunk1024) cuda::host::grad_norm_accumulate({}, values, limbs);
    if (form == NormForm::exact) cuda::host::grad_norm_exact_accumulate({}, values, limbs);
    if (form == NormForm::one) cuda::host::grad_abs_accumulate({}, values, limbs);
    if (form == NormForm::inf) cuda::host::grad_max_accumulate({}, values, amax);
  }
  if (form == NormForm::inf) return cuda::host::grad_max_finish(amax);
  return form == NormForm::one ? cuda::host::grad_abs_finish(limbs)
                               : cuda::host::grad_norm_finish(limbs);
}

constexpr NormForm forms[] = {NormForm::chunk1024, NormForm::exact, NormForm::one, NormForm::inf};

}  // namespace

TEST_CASE(
    "clip groups: the norm of a group is that of its elements, its coefficient that of its norm") {
  const ClipGroups groups = four_groups();
  const double limits[] = {0.125, 0.125, 0, 1e-4};
  for (const NormForm form : forms) {
    const World world = clipped_world({1, 1}, 1, false, form);
    const StepTruth step = std::move(truth_of_one_rank(world).back());
    const TensorView norms = step.at(BufferId::grad_norm);
    const TensorView coefs = step.at(BufferId::clip_coef);
    REQUIRE(norms.numel == 4);
    REQUIRE(coefs.numel == 4);
    int binding = 0;
    for (int g = 0; g < 4; ++g) {
      const double norm = norm_of_group(form, step.at(BufferId::unscaled_grad), groups, g);
      const float coef = cuda::host::clip_coef(norm, limits[g]);
      CHECK(static_cast<const double*>(norms.data)[g] == norm);
      CHECK(static_cast<const float*>(coefs.data)[g] == coef);
      binding += coef < 1 ? 1 : 0;
    }
    CHECK(binding >= 1);
    CHECK(static_cast<const double*>(norms.data)[3] == 0);
    const TensorView before = step.at(BufferId::unscaled_grad);
    const TensorView after = step.at(BufferId::grad);
    int wrong = 0;
    for (std::size_t t = 0; t < odd_layout().tensors().size(); ++t) {
      const TensorSlot& slot = odd_layout().tensors()[t];
      const float coef = static_cast<const float*>(coefs.data)[groups.of_tensor[t]];
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
        const float want = static_cast<const float*>(before.data)[i] * coef;
        wrong += std::memcmp(&want, static_cast<const float*>(after.data) + i, sizeof(want)) != 0;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("clip groups: every parallel configuration, also in two passes") {
  for (const NormForm form : forms) {
    for (const bool fused : {false, true}) {
      for (int stage = 0; stage <= 3; ++stage) {
        for (const int world_size : {1, 2, 5}) {
          check_against_one_rank(clipped_world({1, world_size}, stage, fused, form));
        }
      }
    }
  }
}

TEST_CASE("clip groups: tensors of two groups without padding between them are not joined") {
  for (const NormForm form : forms) {
    World phases = clipped_world({1, 1}, 1, false, form);
    phases.tensors = CutTensors{{{"a", {1024}}, {"b", {2, 1024}}, {"c", {1024}}, {"d", {3}}}};
    phases.setup.micro_batches = 1;
    phases.setup.clip_groups.rules = {{"low", {}, false, 1e-4}};
    phases.setup.clip_groups.of_tensor = {0, 1, 0, 1};
    World passes = phases;
    passes.make = production(true);
    const WorldTruth in_phases = truth_of_one_rank(phases);
    const WorldTruth in_passes = truth_of_one_rank(passes);
    const TensorView coefs = in_phases.back().at(BufferId::clip_coef);
    REQUIRE(static_cast<const float*>(coefs.data)[0] != static_cast<const float*>(coefs.data)[1]);
    // In phases every element of a tensor has its own group's coefficient.
    const TensorView before = in_phases.back().at(BufferId::unscaled_grad);
    const TensorView after = in_phases.back().at(BufferId::grad);
    int wrong = 0;
    for (std::int64_t i = 0; i < 4096; ++i) {
      const float coef = static_cast<const float*>(coefs.data)[i < 1024 || i >= 3072 ? 0 : 1];
      const float want = static_cast<const float*>(before.data)[i] * coef;
      wrong += std::memcmp(&want, static_cast<const float*>(after.data) + i, sizeof(want)) != 0;
    }
    CHECK(wrong == 0);
    const BufferId integers = form == NormForm::inf ? BufferId::grad_amax : BufferId::norm_limbs;
    for (const BufferId id : {integers, BufferId::clip_coef, BufferId::master, BufferId::exp_avg,
                              BufferId::param_full}) {
      const TensorView want = in_phases.back().at(id);
      const TensorView got = in_passes.back().at(id);
      REQUIRE(want.numel == got.numel);
      wrong = 0;
      for (std::int64_t i = 0; i < want.numel; ++i)
        wrong += element_bits(want, i) != element_bits(got, i);
      CHECK(wrong == 0);
    }
  }
}

}  // namespace step_clip_groups_test
