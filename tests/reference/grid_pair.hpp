#pragma once
// One rank of a process grid next to the undistributed optimizer.

#include "tests/reference/grid_support.hpp"
#include "tests/reference/pair_support.hpp"

namespace zeroproof::tests {

struct GridCase {
  Grid grid;
  int stage = 1;
  std::int64_t micro_batches = 1;
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  bool layered = false;
  DType leaf_dtype = DType::fp32;
  Settings settings;
};

inline std::string to_string(const GridCase& c) {
  return to_string(c.grid) + ", stage " + std::to_string(c.stage) + ", M " + std::to_string(c.micro_batches) +
         ", " + std::string(name(c.order)) + (c.layered ? ", layered, " : ", ") +
         std::string(name(c.leaf_dtype)) + ", " + std::string(name(c.settings.hyper.norm));
}

/// One rank of the grid next to the undistributed dense optimizer, whose micro-batches are the CP parts: with the tokens
/// as divisor, and all of them in part 0, the mean is that of the micro-batches.
class GridPair {
 public:
  GridPair(const GridCase& c, const GridPlace& place)
      : c_(c),
        model_(c.grid.tp),
        layout_(model_.layout()),
        initial_(model_.whole),
        shards_(layout_.padded_numel(), c.grid.ranks, 2048),
        cp_rank_((place.instance * c.grid.ranks + place.rank) % c.grid.cp),
        source_(model_, c.grid, cp_rank_, place.tp_rank, c.leaf_dtype) {
    dense_setup_.layout = &model_.whole;
    dense_setup_.micro_batches = c.micro_batches * c.grid.cp;
    apply(c.settings, dense_setup_);
    dense_setup_.loss_reduction = LossReduction::tokens;
    dense_ = std::make_unique<reference::DenseOptimizer>(dense_setup_, initial_.view());

    setup_.layout = &layout_;
    setup_.shards = &shards_;
    setup_.comm = place.comm;
    setup_.replicas = place.replicas;
    setup_.tp = place.tp;
    setup_.cp = c.grid.cp;
    setup_.placement = source_.placement();
    setup_.stage = c.stage;
    setup_.order = c.order;
    setup_.leaf_dtype = c.leaf_dtype;
    setup_.micro_batches = c.micro_batches;
    setup_.persistent_numel = 37;
    apply(c.settings, setup_);
    optimizer_ = reference::make_distributed_optimizer(setup_);
    load();
  }

  std::string step(std::int64_t step) {
    prepare_source(source_, step);
    const bool dense_applied = dense_step(step);
    const bool applied = optimizer_->step(source_);
    if (applied != dense_applied || applied != (step != overflow_step)) return "applied differs";
    Comparison comparison(model_.whole, *optimizer_);
    const reference::DenseStep& last = dense_->last_step();
    comparison.words(BufferId::step_scalars, last.scalars);
    comparison.scalar(BufferId::found_inf, std::uint32_t{last.found_inf ? 1U : 0U});
    comparison.scalar(BufferId::loss_scaler, dense_->loss_scaler());
    comparison.scalar(BufferId::grad_norm, last.grad_norm);
    comparison.scalar(BufferId::clip_coef, last.clip_coef);
    if (!dense_->tensor_steps().empty()) comparison.words(BufferId::tensor_steps, dense_->tensor_steps());
    for (const BufferId id :
         {BufferId::grad_sum, BufferId::unscaled_grad, BufferId::grad, BufferId::exp_avg,
          BufferId::exp_avg_sq, BufferId::master, BufferId::param_shard, BufferId::param_full}) {
      compare_mapped(comparison, id);
    }
    return comparison.text.empty() ? "" : "step " + std::to_string(step) + ": " + comparison.text;
  }

 private:
  /// Elements of this TP rank against where they stand in the undistributed model.
  void compare_mapped(Comparison& comparison, BufferId id) {
    const ExposedBuffer mine = stored(*optimizer_, id);
    const TensorView dense = dense_->buffer(id);
    for (const Piece& piece : layout_.pieces(mine.ranges)) {
      const TensorPlacement& place = setup_.placement[static_cast<std::size_t>(piece.tensor)];
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        const std::int64_t global = place.global(piece.tensor_begin + i);
        comparison.expect(element_bits(mine.view, piece.local_begin + i) == element_bits(dense, global), id,
                          global);
      }
    }
  }

  void load() {
    const auto mapped = [&](const std::vector<float>& whole) {
      std::vector<float> values = reference::nan_buffer(layout_.padded_numel());
      for (const Piece& piece : source_.pieces()) {
        const TensorPlacement& place = setup_.placement[static_cast<std::size_t>(piece.tensor)];
        for (std::int64_t e = 0; e < piece.numel; ++e) {
          values[static_cast<std::size_t>(piece.local_begin + e)] =
              whole[static_cast<std::size_t>(place.global(e))];
        }
      }
      return values;
    };
    const std::vector<float> master = mapped(initial_.master);
    const std::vector<float> exp_avg = mapped(initial_.exp_avg);
    const std::vector<float> exp_avg_sq = mapped(initial_.exp_avg_sq);
    FullState state = initial_.view();
    state.master = master;
    state.exp_avg = exp_avg;
    state.exp_avg_sq = exp_avg_sq;
    optimizer_->load_state(state);
  }

  void prepare_source(PartSource& source, std::int64_t step) const {
    source.step = step;
    source.micro_batches = c_.micro_batches;
    source.overflow = step == overflow_step;
    source.gaps = c_.settings.missing_grad == MissingGrad::skip;
    source.layered = c_.layered;
    source.log2_scale = dense_->loss_scaler().log2_scale;
  }

  bool dense_step(std::int64_t step) {
    std::vector<std::vector<float>> leaves;
    reference::MicroBatchFacts facts;
    for (std::int64_t j = 0; j < c_.micro_batches; ++j) {
      for (int cp_rank = 0; cp_rank < c_.grid.cp; ++cp_rank) {
        std::vector<PartSource> sources;
        std::vector<bool> has_grad(5, false);
        for (int t = 0; t < c_.grid.tp; ++t) {
          sources.emplace_back(model_, c_.grid, cp_rank, t, c_.leaf_dtype);
          prepare_source(sources.back(), step);
          for (std::int64_t k = 0; k < 5; ++k) {
            if (sources.back().has_grad(j, k)) has_grad[static_cast<std::size_t>(k)] = true;
          }
        }
        leaves.push_back(undistributed_leaf(model_, sources, j));
        facts.has_grad.push_back(has_grad);
        const std::int64_t tokens = c_.settings.loss_reduction == LossReduction::tokens ? j + 1 : 1;
        facts.num_tokens.push_back(cp_rank == 0 ? tokens : 0);
      }
    }
    std::vector<TensorView> views;
    for (const std::vector<float>& leaf : leaves) views.push_back(reference::array_view(leaf));
    return dense_->step(views, facts);
  }

  GridCase c_;
  CutModel model_;
  FlatLayout layout_;
  InitialState initial_;
  ShardMap shards_;
  int cp_rank_;
  PartSource source_;
  reference::DenseSetup dense_setup_;
  OptimizerSetup setup_;
  std::unique_ptr<reference::DenseOptimizer> dense_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

inline void check_grid(const GridCase& c) {
  std::vector<std::string> problems(static_cast<std::size_t>(c.grid.instances * c.grid.ranks * c.grid.tp));
  INFO(to_string(c));
  run_grid(c.grid, [&](const GridPlace& place) {
    GridPair pair(c, place);
    std::string& problem = problems[static_cast<std::size_t>(place.number)];
    for (int step = 1; step <= num_steps && problem.empty(); ++step) problem = pair.step(step);
  });
  for (const std::string& problem : problems) CHECK(problem == "");
}

}  // namespace zeroproof::tests
