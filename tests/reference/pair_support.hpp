#pragma once
// The sharded and the undistributed optimizer side by side, on every rank of a world of threads.

#include "tests/reference/distributed_support.hpp"

namespace zeroproof::tests {

inline constexpr int num_steps = 4;
inline constexpr std::int64_t overflow_step = 2;  // the second of the four

/// Differences of one rank against the dense optimizer, in words; doctest is asked on the main thread only.
class Comparison {
 public:
  Comparison(const FlatLayout& layout, DistributedOptimizer& optimizer)
      : layout_(layout), optimizer_(optimizer) {}

  /// Elements of a buffer against the dense one: tensors bit for bit, padding still NaN.
  void buffer(BufferId id, const TensorView& dense) {
    const ExposedBuffer mine = stored(optimizer_, id);
    std::vector<bool> is_padding(static_cast<std::size_t>(mine.view.numel), true);
    for (const Piece& piece : layout_.pieces(mine.ranges)) {
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        is_padding[static_cast<std::size_t>(piece.local_begin + i)] = false;
        const std::uint32_t here = element_bits(mine.view, piece.local_begin + i);
        expect(here == element_bits(dense, piece.global_begin + i), id, piece.global_begin + i);
      }
    }
    const std::uint32_t nan = mine.view.dtype == DType::fp32 ? 0x7FFFFFFFU : 0x7FFFU;
    for (std::int64_t i = 0; i < mine.view.numel; ++i) {
      if (is_padding[static_cast<std::size_t>(i)]) expect(element_bits(mine.view, i) == nan, id, -1);
    }
  }

  /// In stage 3 there is nothing to look at unless some tensors are persistent.
  void full_parameters(const TensorView& dense) {
    if (has(optimizer_, BufferId::param_full)) buffer(BufferId::param_full, dense);
  }

  template <class T>
  void scalar(BufferId id, const T& dense) {
    const T mine = read<T>(stored(optimizer_, id).view);
    if constexpr (std::is_floating_point_v<T>) {
      expect(bits(mine) == bits(dense), id, 0);
    } else {
      expect(std::memcmp(&mine, &dense, sizeof(T)) == 0, id, 0);
    }
  }

  void expect(bool equal, BufferId id, std::int64_t index) {
    if (equal || !text.empty()) return;
    text = std::string(name(id)) + " differs at global index " + std::to_string(index) + " (" +
           (index < 0 ? "padding" : layout_.coordinates(index)) + ")";
  }

  /// Words of a buffer that is no tensor, against as many.
  template <class T>
  void words(BufferId id, const std::vector<T>& dense) {
    const TensorView mine = stored(optimizer_, id).view;
    const std::size_t bytes = dense.size() * sizeof(T);
    expect(mine.num_bytes() == static_cast<std::int64_t>(bytes), id, 0);
    if (text.empty() && bytes > 0) expect(std::memcmp(mine.data, dense.data(), bytes) == 0, id, 0);
  }

  std::string text;  ///< the first difference

 private:
  const FlatLayout& layout_;
  DistributedOptimizer& optimizer_;
};

inline void compare(Comparison& comparison, const OptimizerHyper& hyper,
                    const reference::DenseOptimizer& dense) {
  const reference::DenseStep& step = dense.last_step();
  comparison.words(BufferId::step_scalars, step.scalars);
  comparison.scalar(BufferId::found_inf, std::uint32_t{step.found_inf ? 1U : 0U});
  comparison.scalar(BufferId::loss_scaler, dense.loss_scaler());
  comparison.scalar(BufferId::grad_norm, step.grad_norm);
  comparison.scalar(BufferId::clip_coef, step.clip_coef);
  comparison.scalar(BufferId::applied_steps, static_cast<std::uint64_t>(dense.applied_steps()));
  if (!dense.tensor_steps().empty()) comparison.words(BufferId::tensor_steps, dense.tensor_steps());
  std::vector<BufferId> tensors = reference::state_buffers(hyper);
  tensors.insert(tensors.end(), {BufferId::grad_sum, BufferId::unscaled_grad, BufferId::grad,
                                 BufferId::master, BufferId::param_shard});
  for (const BufferId id : tensors) comparison.buffer(id, dense.buffer(id));
  comparison.full_parameters(dense.param());
}

/// Copies of all leaves of a step, as the dense optimizer takes them.
struct AllLeaves {
  AllLeaves(RandomLeaves& source, std::int64_t micro_batches) {
    for (std::int64_t j = 0; j < micro_batches; ++j) {
      const TensorView view = source.leaf(j);
      bytes.emplace_back(static_cast<std::size_t>(view.num_bytes()));
      std::memcpy(bytes.back().data(), view.data, bytes.back().size());
      views.push_back({bytes.back().data(), view.dtype, view.numel});
    }
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<TensorView> views;
};

inline OptimizerHyper usual_hyper(UpdateRule rule = UpdateRule::adamw) {
  OptimizerHyper hyper;
  hyper.rule = rule;
  hyper.lr = 0.05;
  hyper.weight_decay = 0.1;
  hyper.max_norm = 2.0;
  return hyper;
}

/// Both optimizers with the same settings and the same leaves, on one rank.
class Pair {
 public:
  Pair(const Case& c, const Settings& settings, Communicator& comm)
      : c_(c),
        settings_(settings),
        layout_(odd_layout()),
        shards_(map_of(layout_, c)),
        leaves_(layout_, c.leaf_dtype) {
    const InitialState initial(layout_);
    dense_setup_.layout = &layout_;
    dense_setup_.param_dtype = c.param_dtype;
    dense_setup_.micro_batches = c.micro_batches;
    apply(settings, dense_setup_);
    dense_ = std::make_unique<reference::DenseOptimizer>(dense_setup_, initial.view());

    OptimizerSetup setup;
    setup.layout = &layout_;
    setup.shards = &shards_;
    setup.comm = &comm;
    apply(c, setup);
    apply(settings, setup);
    optimizer_ = reference::make_distributed_optimizer(setup);
    optimizer_->load_state(initial.view());
    leaves_.micro_batches = c.micro_batches;
    leaves_.gaps = settings.missing_grad == MissingGrad::skip;
  }

  /// What differs after loading, or "".
  std::string compare_loaded() {
    Comparison comparison(layout_, *optimizer_);
    for (const BufferId id : reference::state_buffers(settings_.hyper))
      comparison.buffer(id, dense_->buffer(id));
    comparison.buffer(BufferId::master, dense_->buffer(BufferId::master));
    comparison.buffer(BufferId::param_shard, dense_->param());
    comparison.full_parameters(dense_->param());
    return comparison.text.empty() ? "" : "loaded: " + comparison.text;
  }

  /// One step of both; what differs after it, or "".
  std::string step(std::int64_t step) {
    leaves_.step = step;
    leaves_.overflow = step == overflow_step;
    leaves_.log2_scale = dense_->loss_scaler().log2_scale;
    const bool dense_applied = dense_step();
    const bool applied = optimizer_->step(leaves_);
    Comparison comparison(layout_, *optimizer_);
    const bool expected = step != overflow_step || settings_.on_nonfinite != OnNonfinite::skip;
    comparison.expect(applied == dense_applied && applied == expected, BufferId::found_inf, 0);
    compare(comparison, settings_.hyper, *dense_);
    return comparison.text.empty() ? "" : "step " + std::to_string(step) + ": " + comparison.text;
  }

  /// The step with the overflow under the policy error: both throw and keep everything. "" or what is wrong.
  std::string failing_step() {
    leaves_.step = overflow_step;
    leaves_.overflow = true;
    leaves_.log2_scale = dense_->loss_scaler().log2_scale;
    const LossScalerState scaler = dense_->loss_scaler();
    const std::string dense_message = message_of([&] { dense_step(); });
    const std::string message = message_of([&] { optimizer_->step(leaves_); });
    if (message != dense_message) return "messages differ: " + message + " | " + dense_message;
    // load_state said 5 applied steps, and one was taken.
    if (message.rfind("step 7 has a gradient", 0) != 0) return "message: " + message;
    if (optimizer_->skipped()) return "skipped() is true";
    if (!(optimizer_->loss_scaler() == scaler && dense_->loss_scaler() == scaler))
      return "the loss scaler moved";
    if (optimizer_->applied_steps() != 6 || dense_->applied_steps() != 6) return "the step was counted";
    for (const Phase phase : {Phase::norm, Phase::clip, Phase::update, Phase::cast, Phase::gather}) {
      if (message_of([&] { optimizer_->run_phase(phase, leaves_); }).empty()) return "a later phase ran";
    }
    Comparison comparison(layout_, *optimizer_);
    comparison.buffer(BufferId::master, dense_->buffer(BufferId::master));
    comparison.buffer(BufferId::exp_avg, dense_->buffer(BufferId::exp_avg));
    comparison.full_parameters(dense_->param());
    return comparison.text;
  }

  /// Bits of master, state and parameters of this rank.
  std::vector<std::uint32_t> fingerprint() {
    std::vector<std::uint32_t> result;
    std::vector<BufferId> ids = reference::state_buffers(settings_.hyper);
    ids.insert(ids.end(), {BufferId::master, BufferId::param_shard, BufferId::param_full});
    for (const BufferId id : ids) {
      const TensorView view = stored(*optimizer_, id).view;
      for (std::int64_t i = 0; i < view.numel; ++i) result.push_back(element_bits(view, i));
    }
    return result;
  }

 private:
  bool dense_step() {
    return dense_->step(AllLeaves(leaves_, c_.micro_batches).views,
                        reference::facts_of(dense_setup_, leaves_));
  }

  /// Text of the Error a call throws, "" if it throws none.
  template <class Call>
  static std::string message_of(Call call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  Case c_;
  Settings settings_;
  FlatLayout layout_;
  ShardMap shards_;
  RandomLeaves leaves_;
  reference::DenseSetup dense_setup_;
  std::unique_ptr<reference::DenseOptimizer> dense_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

/// Calls work(pair) on every rank; it returns "" or what is wrong.
template <class Work>
void check_ranks(const Case& c, const Settings& settings, const std::string& what, Work work) {
  std::vector<std::string> problems(static_cast<std::size_t>(c.world_size));
  ThreadWorld world(c.world_size);
  run_ranks(world, [&](Communicator& comm) {
    Pair pair(c, settings, comm);
    problems[static_cast<std::size_t>(comm.rank())] = work(pair);
  });
  for (const std::string& problem : problems) {
    INFO(what, " ", to_string(c));
    CHECK(problem == "");
  }
}

/// Four steps of both; every buffer of every step agrees.
inline void check_case(const Case& c, const Settings& settings, const std::string& what = "") {
  check_ranks(c, settings, what, [](Pair& pair) {
    std::string problem = pair.compare_loaded();
    for (int step = 1; step <= num_steps && problem.empty(); ++step) problem = pair.step(step);
    return problem;
  });
}

}  // namespace zeroproof::tests
