#pragma once
// A workload with its settings: the model, the data, the first state. Shared by all cases of one recipe and dtype.

#include <memory>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/layout/tp_cut.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/initial_buffers.hpp"
#include "verification/model/byte_gpt.hpp"
#include "verification/model/byte_gpt_place.hpp"
#include "verification/model/recorded.hpp"
#include "verification/model/text.hpp"

namespace zeroproof::verification {

/// Names of the workloads, the main job first.
const std::vector<std::string>& workload_names();

/// The same for a sentence: "byte_gpt, byte_gpt_tiny, ... or byte_gpt_uneven".
std::string workload_list();

/// Defaults of a workload. Errors (ErrorCode::config): an unknown name.
RunConfig workload_defaults(const std::string& workload);

/// The model of a workload, with these extents. Unknown names have the layers of the main job.
workload::ByteGptShape model_shape(const std::string& workload, const ModelConfig& extents);

class Experiment {
 public:
  /// The text may be that of recorded_text(): gradients are then read from its file. Errors:
  /// ErrorCode::config if the settings or the text cannot be used.
  Experiment(std::string workload, const RunConfig& config, DType dtype, workload::Text text,
             std::string recipe = "adamw");

  /// The optimizer setup of this experiment, without its place in a world.
  OptimizerSetup setup() const;

  const std::string& workload() const { return workload_; }
  const std::string& recipe() const { return recipe_; }
  const RunConfig& config() const { return config_; }
  const FlatLayout& layout() const { return layout_; }
  /// Param group of every tensor; empty if all are in one.
  const std::vector<int>& group_of_tensor() const { return groups_.of_tensor; }
  DType param_dtype() const { return dtype_; }
  /// Blocks of all tensors, if parameters have scales; otherwise none.
  const TensorBlocks& blocks() const { return blocks_; }
  DType grad_dtype() const { return dtype_ == DType::fp16 ? DType::fp16 : DType::fp32; }

  /// How the undistributed optimizer adds gradients: in bins if the run does, otherwise by the tree
  /// (also for native sums, which are compared within a bound).
  GradSum grad_sum() const;

  /// The scaler of this dtype: the configured one for fp16, none for bf16 and fp32.
  LossScalerConfig scaler() const;

  /// Bytes of text in one micro-batch, 0 if the gradients come from a file.
  int context() const { return recorded_ ? 0 : config_.model.context; }

  /// Digest of the text; for recorded gradients of the file's metadata, not of the gradients.
  Digest text_digest() const;

  /// State before the first step, created at the first call; valid as long as the experiment.
  FullState initial_state() const;

  /// Steps applied before the run.
  std::int64_t initial_step() const;

  /// Units of the model that runs layer by layer (LayeredModel), in the numbering of a layout with
  /// the same tensors; empty for recorded gradients, which are read as a whole.
  std::vector<FlatRange> units(const FlatLayout& layout) const;
  std::vector<int> visits() const;

  /// Tensors of one rank of a tensor-parallel model. Errors (ErrorCode::config): the workload
  /// cannot be split that way.
  TpModel tp_model(int tp_size, int tp_rank) const;

  /// Loss and gradient of one micro-batch.
  /// Shapes   params: [padded_numel] in the parameter dtype; for 8-bit parameters the decoded
  /// values in fp32. leaf: [padded_numel] in the gradient dtype; padding is not written.
  /// Units    leaf is 2^log2_loss_scale * gradient. Returns the loss in nats per byte, or the
  /// recorded one, NaN if none is recorded. With loss_reduction = tokens it is the gradient of the
  /// sum over num_tokens, not of their mean.
  double micro_batch_grad(std::int64_t step, std::int64_t micro_batch, const TensorView& params,
                          int log2_loss_scale, const TensorView& leaf) const;

  /// This rank's part of the gradient of a micro-batch that the ranks of `groups` compute together
  /// (R11, R18). Collective over them. layout: of this TP rank; params, leaf: [its padded_numel].
  /// Otherwise as micro_batch_grad().
  double leaf_part(std::int64_t step, std::int64_t micro_batch,
                   const workload::ByteGptGroups& groups, const FlatLayout& layout,
                   const TensorView& params, int log2_loss_scale, const TensorView& leaf) const;

  /// Tokens of a micro-batch; with loss_reduction = tokens the numbers differ.
  std::int64_t num_tokens(std::int64_t micro_batch) const;

  /// Whether a micro-batch gives a tensor a gradient. With idle_tensors every third tensor is unused in even steps, and
  /// every third one gets its gradient from even micro-batches only.
  bool has_grad(std::int64_t step, std::int64_t micro_batch, std::int64_t tensor) const;

 private:
  /// Input of the model for a micro-batch, and the factor of its gradient.
  struct Input {
    Span<const std::uint8_t> tokens;
    float scale;
  };
  Input input(std::int64_t step, std::int64_t micro_batch, int log2_loss_scale) const;

  /// Writes a gradient in the gradient dtype, and +0 for tensors that have none.
  void store_leaf(std::int64_t step, std::int64_t micro_batch, const FlatLayout& layout,
                  const std::vector<float>& grad, const TensorView& leaf) const;
  bool overflows(std::int64_t step, std::int64_t micro_batch) const;

  std::string workload_;
  std::string recipe_;  // config_ is the configuration under it
  RunConfig config_;
  DType dtype_;
  workload::Text text_;
  workload::ByteGptShape shape_;
  std::shared_ptr<const workload::RecordedGradients> recorded_;  // replaces the model if set
  FlatLayout layout_;
  ParamGroups groups_;
  ClipGroups clip_groups_;
  std::vector<MatrixTensor> matrix_tensors_;  // with the rule muon
  TensorBlocks blocks_;
  std::shared_ptr<InitialBuffers> initial_ = std::make_shared<InitialBuffers>();
  std::vector<std::uint64_t> tensor_steps_;  // [num_tensors]
  std::int64_t overflow_tensor_ = -1;
};

/// The text a run trains on: config.text, or the project's own files. Errors: ErrorCode::config.
workload::Text load_text(const RunConfig& config);

}  // namespace zeroproof::verification
