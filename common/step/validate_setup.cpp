#include "common/step/validate_setup.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/shown.hpp"
#include "common/contracts/binned_sum.hpp"
#include "common/step/scaled_params.hpp"

namespace zeroproof {
namespace {

void check(bool ok, const std::string& problem, const std::string& why, const std::string& remedy) {
  ZP_CHECK(ok, ErrorCode::invalid_argument, problem, why, remedy);
}

int ranks_of(const Communicator* group) { return group == nullptr ? 1 : group->world_size(); }

void check_dtype(DType dtype, const std::string& what, bool may_have_scales) {
  check(is_param_format(dtype) || (may_have_scales && has_scales(dtype)),
        what + " are " + std::string(name(dtype)),
        may_have_scales ? "fp32, bf16, fp16, e4m3 and e5m2 are parameter dtypes"
                        : "only fp32, bf16 and fp16 are gradient dtypes",
        "choose one of these");
}

void check_scaling(const ParamScaling& scaling) {
  check(std::isfinite(scaling.epsilon) && scaling.epsilon >= 0,
        "scaling.epsilon is " + std::to_string(scaling.epsilon),
        "it is the lower bound of amax (R22)", "use a finite number of at least 0");
  check(scaling.margin >= 0 && scaling.margin <= 64,
        "scaling.margin is " + std::to_string(scaling.margin),
        "it is a number of bits of headroom (R22)", "use 0 to 64");
  check(scaling.history >= 1 && scaling.history <= 1024,
        "scaling.history is " + std::to_string(scaling.history),
        "it counts the slots of a history, at most 1024 (R22)", "use 1 to 1024");
}

void check_groups(const ParamGroups& groups, const FlatLayout& layout) {
  const std::size_t num_tensors = layout.tensors().size();
  check(groups.of_tensor.empty() || groups.of_tensor.size() == num_tensors,
        "param groups are given for " + std::to_string(groups.of_tensor.size()) + " of " +
            std::to_string(num_tensors) + " tensors",
        "every tensor needs the lr of its group", "make the groups from this layout");
  for (const int group : groups.of_tensor) {
    check(group >= 0 && group < groups.count(),
          "a tensor is in param group " + std::to_string(group),
          "there are " + std::to_string(groups.count()) + ", counted from 0",
          "make the groups from this layout");
  }
}

void check_clip_groups(const ClipGroups& groups, const FlatLayout& layout) {
  const std::size_t num_tensors = layout.tensors().size();
  check(groups.of_tensor.empty() || groups.of_tensor.size() == num_tensors,
        "clip groups are given for " + std::to_string(groups.of_tensor.size()) + " of " +
            std::to_string(num_tensors) + " tensors",
        "every tensor counts in the norm of one of them (R12)",
        "make the clip groups from this layout");
  for (const int group : groups.of_tensor) {
    check(group >= 0 && group < groups.count(),
          "a tensor is in clip group " + std::to_string(group),
          "there are " + std::to_string(groups.count()) + ", counted from 0",
          "make the clip groups from this layout");
  }
  for (const ClipGroupRule& rule : groups.rules) {
    check(!rule.max_norm || (std::isfinite(*rule.max_norm) && *rule.max_norm >= 0),
          "clip group '" + rule.name + "' has the max_norm " +
              std::to_string(rule.max_norm.value_or(0)),
          "it bounds the length of the gradient",
          "use a finite value of 0 or more, 0 for no clipping");
  }
}

void check_muon(const StepSettings& settings) {
  const bool has_matrices = traits_of(settings.hyper.rule).matrices;
  const std::size_t given = settings.matrix_tensors.size();
  const std::size_t wanted = has_matrices ? settings.layout->tensors().size() : 0;
  check(given == wanted,
        "the settings say of " + std::to_string(given) +
            " tensors whether they are matrices, and the rule is " +
            std::string(traits_of(settings.hyper.rule).name),
        wanted == 0 ? "only the rule muon updates matrices"
                    : "the rule updates matrices and other tensors differently (R28)",
        wanted == 0 ? "leave StepSettings::matrix_tensors empty"
                    : "make StepSettings::matrix_tensors with make_matrix_tensors");
  if (!has_matrices) return;
  const auto& [family, newton_schulz, scale, scale_factor] = settings.hyper.muon;
  check(family != MomentumFamily::ema || settings.hyper.momentum < 1,
        "momentum is 1 with the family ema of the rule muon",
        "a gradient has the weight 1 - momentum, so that no matrix would change (R28)",
        "use a momentum below 1, or the family heavy_ball");
  check(newton_schulz.steps >= 1 && newton_schulz.steps <= 64,
        "muon.steps is " + std::to_string(newton_schulz.steps),
        "it counts steps of the Newton-Schulz iteration (R28)", "use 1 to 64");
  check(std::isfinite(newton_schulz.eps) && newton_schulz.eps >= 0x1p-126,
        "muon.eps is " + shown(newton_schulz.eps), "it replaces a norm of 0 (R28)",
        "use a finite number of at least 2^-126");
  check(std::isfinite(scale_factor) && scale_factor > 0,
        "muon.scale_factor is " + shown(scale_factor),
        "it multiplies the update of every matrix (R28)", "use a finite number above 0");
}

/// matrices: of the undistributed tensors, [num_tensors].
void check_parts(const StepSettings& settings, const std::vector<TensorMatrix>& matrices) {
  for (std::size_t i = 0; i < settings.matrix_tensors.size(); ++i) {
    const auto& [is_matrix, by_columns, widths] = settings.matrix_tensors[i];
    if (!is_matrix) continue;
    const TensorSlot& tensor = settings.layout->tensors()[i];
    check(
        tensor.shape.size() == 2,
        "the matrix " + tensor.name + " has " + std::to_string(tensor.shape.size()) + " dimensions",
        "a matrix has rows and columns (R28)",
        "make StepSettings::matrix_tensors with make_matrix_tensors");
    const std::int64_t extent = by_columns ? matrices[i].columns : matrices[i].rows;
    std::int64_t period = 0;
    bool are_widths = true;
    for (const std::int64_t width : widths) {
      are_widths = are_widths && width >= 1 && width <= BlockGrid::most;
      if (are_widths) period += width;
    }
    check(are_widths && (widths.empty() || extent % period == 0),
          "the parts of the matrix " + tensor.name + " do not cover its " + std::to_string(extent) +
              (by_columns ? " columns" : " rows"),
          "some of them would belong to no part (R28)",
          "use widths of at least 1 whose sum divides that number");
  }
}

void check_leaves(const StepSettings& settings) {
  check(settings.micro_batches >= 1, "micro_batches is " + std::to_string(settings.micro_batches),
        "a step needs a gradient", "use 1 or more");
  check(settings.grad_sum != GradSum::binned || settings.micro_batches <= binned_max_leaves,
        std::to_string(settings.micro_batches) + " micro-batches are summed in bins",
        "32-bit fields hold at most " + std::to_string(binned_max_leaves) + " leaves (R11)",
        "use fewer micro-batches, or the gradient sum tree");
}

void check_shards(const OptimizerSetup& setup) {
  check(setup.shards->padded_numel() == setup.layout->padded_numel(),
        "the shard map covers " + std::to_string(setup.shards->padded_numel()) +
            " elements and the layout has " + std::to_string(setup.layout->padded_numel()),
        "every element needs one owner", "make the shard map from this layout");
  check(setup.shards->world_size() == setup.comm->world_size(),
        "the shard map is for " + std::to_string(setup.shards->world_size()) +
            " ranks and there are " + std::to_string(setup.comm->world_size()),
        "every shard needs a rank", "make the shard map for this communicator");
  check(setup.shards->covers(*setup.layout),
        "the shard map leaves elements of tensors without an owner", "they would not be updated",
        "make the shard map from this layout");
  check(setup.hyper.norm != NormForm::chunk1024 ||
            (setup.shards->aligned() && ranks_of(setup.tp) == 1),
        "the norm is chunk1024 with " + std::to_string(ranks_of(setup.tp)) +
            " TP ranks and shards split at " +
            (setup.shards->aligned() ? "multiples of 1024" : "any element"),
        "a chunk must be on one rank, in the numbering of the undistributed model (R12)",
        "use the norm exact, one or inf");
}

void check_cp(const OptimizerSetup& setup) {
  const int cp = setup.cp;
  check(cp == 1 || cp == 2 || cp == 4 || cp == 8,
        "there are " + std::to_string(cp) + " CP ranks for a micro-batch",
        "the tree has 1, 2, 4 or 8 parts per leaf (R11)", "use one of these");
  const int data_ranks = setup.comm->world_size() * ranks_of(setup.replicas);
  check(data_ranks % cp == 0,
        std::to_string(data_ranks) + " data ranks are no multiple of " + std::to_string(cp) +
            " CP ranks",
        "some parts of a micro-batch would have no rank", "use a multiple of cp");
  check(setup.grad_sum != GradSum::binned || setup.comm->world_size() % cp == 0,
        "gradients of " + std::to_string(cp) + " CP parts are summed in bins by instances of " +
            std::to_string(setup.comm->world_size()) + " ranks",
        "an instance combines the parts of a gradient before the sum (R11)",
        "use instances of a multiple of cp ranks, or the gradient sum tree");
}

void check_offload(const Offload& offload) {
  check(offload.fraction >= 0 && offload.fraction <= 1,
        "the offloaded fraction is " + std::to_string(offload.fraction),
        "it is a part of the elements a rank keeps state for", "use a number from 0 to 1");
  check(offload.chunk_numel >= 1,
        "a chunk of offloaded state has " + std::to_string(offload.chunk_numel) + " elements",
        "state is copied in chunks", "use 1 or more");
}

/// In stage 0 ranks of one machine read each other's gradient sums in place.
void check_grad_home(const OptimizerSetup& setup) {
  const int ranks = ranks_of(setup.comm);
  check(!setup.offload.moves_grads() || setup.stage > 0 || setup.windows == Windows::off ||
            ranks == 1,
        "a part of the gradient sum is offloaded in stage 0 with windows on " +
            std::to_string(ranks) + " ranks",
        "the other ranks read it in place", "use windows off, or stage 1, 2 or 3");
}

void check_matrices(const OptimizerSetup& setup) {
  const bool of_rule = traits_of(setup.hyper.rule).matrices;
  if (!has_scales(setup.param_dtype) && !of_rule) return;
  check(!setup.matrices.empty() || setup.placement.empty() || ranks_of(setup.tp) == 1,
        (of_rule ? "matrices of the rule muon are split over "
                 : "parameters of " + std::string(name(setup.param_dtype)) + " are split over ") +
            std::to_string(ranks_of(setup.tp)) + " TP ranks without their undistributed matrices",
        of_rule ? "whole matrices are orthogonalised (R28)"
                : "scales belong to blocks of the undistributed tensors (R24)",
        "set OptimizerSetup::matrices");
  blocks_of(setup);
  check_parts(setup, setup.matrices.empty() ? matrices_of(*setup.layout) : setup.matrices);
}

void check_placement(const OptimizerSetup& setup) {
  const std::vector<TensorSlot>& tensors = setup.layout->tensors();
  const int tp = ranks_of(setup.tp);
  check(setup.placement.size() == tensors.size() || (setup.placement.empty() && tp == 1),
        "there are " + std::to_string(setup.placement.size()) + " placements of " +
            std::to_string(tensors.size()) + " tensors on " + std::to_string(tp) + " TP ranks",
        "they define partial gradients and the positions of elements",
        "pass one for every tensor, or none without tensor parallelism");
  for (std::size_t i = 0; i < setup.placement.size(); ++i) {
    const TensorPlacement& place = setup.placement[i];
    const bool rows = place.row_numel >= 1 && place.row_stride >= place.row_numel;
    check(place.begin >= 0 && (tensors[i].numel == 0 || rows),
          "tensor " + tensors[i].name + " is placed at " + std::to_string(place.begin) +
              " in rows of " + std::to_string(place.row_numel) + " elements, " +
              std::to_string(place.row_stride) + " apart",
          "two elements would have the same index in the undistributed model",
          "use rows of 1 or more elements that do not overlap");
  }
}

void check_settings(const StepSettings& settings) {
  check(settings.layout != nullptr, "the optimizer has no layout",
        "it has the positions of the tensors", "set StepSettings::layout");
  check_leaves(settings);
  check_dtype(settings.param_dtype, "parameters", true);
  if (has_scales(settings.param_dtype)) check_scaling(settings.scaling);
  check(settings.param_rounding == ParamRounding::nearest || settings.param_dtype == DType::bf16,
        "parameters of " + std::string(name(settings.param_dtype)) + " are rounded stochastically",
        "only the rounding to bf16 has a stochastic form", "use bf16, or param_rounding nearest");
  check(settings.state_formats.master == MasterFormat::fp32 || settings.param_dtype == DType::bf16,
        "the master is bf16 and parameters are " + std::string(name(settings.param_dtype)),
        "without a master in fp32 the parameter is the master (R25)",
        "use bf16 parameters, or the master format fp32");
  check_groups(settings.groups, *settings.layout);
  check_clip_groups(settings.clip_groups, *settings.layout);
  check_muon(settings);
}

}  // namespace

void validate_settings(const StepSettings& settings) {
  check_settings(settings);
  check_parts(settings, matrices_of(*settings.layout));
}

void validate_setup(const OptimizerSetup& setup) {
  check_settings(setup);
  check(setup.shards != nullptr && setup.comm != nullptr,
        "the optimizer has no shard map or no communicator", "they determine its elements",
        "set both in OptimizerSetup");
  check(setup.stage >= 0 && setup.stage <= 3, "the ZeRO stage is " + std::to_string(setup.stage),
        "there are four", "use 0, 1, 2 or 3");
  check_dtype(setup.grad_dtype, "gradients", false);
  check(setup.persistent_numel >= 0,
        "persistent_numel is " + std::to_string(setup.persistent_numel),
        "tensors of at most that many elements are not sharded", "use 0 or more");
  check_offload(setup.offload);
  check_grad_home(setup);
  check_placement(setup);
  check_matrices(setup);
  check_shards(setup);
  check_cp(setup);
}

}  // namespace zeroproof
