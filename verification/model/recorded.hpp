#pragma once
// Gradients recorded in a safetensors file, instead of gradients of a model.
//
//   grad.<step>.<micro_batch>.<parameter>   F32, F16 or BF16, the parameter's shape; steps count from 1 and
//                                           micro-batches from 0, as in reports; none may be missing
//   param.<parameter>                       F32, first value; all parameters or none (then seeded)
//   loss                                    F64 or F32 [steps, micro_batches], optional: shown, not checked
//
// Metadata, all optional: "steps" and "micro_batches" are compared with the tensors;
// "loss_scale_log2" is the power of two that the gradients are already multiplied by (0); "order"
// lists the parameters in registration order, one per line (default: the byte order of their
// names); "settings" are those of the recorded run, as TOML.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/io/safetensors/safetensors_reader.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof::workload {

class RecordedGradients {
 public:
  /// Reads the header and checks that the recording is complete; gradients are read on demand.
  /// Errors: ErrorCode::config if the file is not such a recording, naming the tensor;
  /// ErrorCode::io as SafetensorsReader.
  explicit RecordedGradients(const std::string& path);

  const std::vector<ParamSpec>& params() const { return params_; }  ///< in registration order
  std::int64_t steps() const { return steps_; }
  std::int64_t micro_batches() const { return micro_batches_; }
  int log2_loss_scale() const { return log2_loss_scale_; }
  std::string settings() const;  ///< as TOML, "" if it has none
  std::int64_t file_bytes() const {
    return reader_.header().data_begin + reader_.header().data_bytes;
  }

  /// First values: those of the file, or 0.02 * Philox(seed, 256 + k).bell(i) for element i of
  /// parameter k.
  /// Shapes   flat: [padded_numel] of FlatLayout(params()); padding is not written.
  void init_parameters(const FlatLayout& layout, std::uint64_t seed, Span<float> flat) const;

  /// The recorded gradient times 2^(log2_loss_scale - log2_loss_scale()), computed in fp32 and
  /// rounded once more to fp16 where the gradient is fp16. Independent of the parameters.
  /// Shapes   leaf: [padded_numel], fp32 or fp16; padding is not written.
  /// Returns  the recorded loss, NaN if there is none.
  double micro_batch_grad(std::int64_t step, std::int64_t micro_batch, int log2_loss_scale,
                          const FlatLayout& layout, const TensorView& leaf) const;

 private:
  void find_gradients();
  void check_complete();
  void check_initial();
  void check_metadata();
  void put_in_order();
  double loss(std::int64_t step, std::int64_t micro_batch) const;

  SafetensorsReader reader_;
  std::vector<ParamSpec> params_;
  std::int64_t steps_ = 0, micro_batches_ = 0, num_gradients_ = 0;
  int log2_loss_scale_ = 0;
  bool has_initial_ = false;
};

/// The name of a gradient in a recording, and its parser.
std::string gradient_name(std::int64_t step, std::int64_t micro_batch,
                          const std::string& parameter);
bool is_gradient_name(const std::string& name);

/// Limits for recordings: headers up to the format's limit, since there is a tensor per
/// micro-batch.
SafetensorsLimits recording_limits();

/// The recording at `path`, opened once per process: a whole run reads the same file, even if
/// another replaces it.
std::shared_ptr<const RecordedGradients> open_recorded(const std::string& path);

}  // namespace zeroproof::workload
