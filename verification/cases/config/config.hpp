#pragma once
// Settings of a run: model, data order, optimizer, scaler, and the worlds in which it is repeated.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/contracts/loss_scaler.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/layout/matrix_owners.hpp"
#include "common/layout/peer_layouts.hpp"
#include "common/step/clip_groups.hpp"
#include "common/step/lr_schedule.hpp"
#include "common/step/matrix_tensors.hpp"
#include "common/step/offload.hpp"
#include "common/step/param_groups.hpp"
#include "common/step/param_scaling.hpp"
#include "common/step/policy.hpp"

namespace zeroproof {

struct ModelConfig {
  int layers = 4;
  int width = 136;
  int heads = 4;
  int hidden = 544;
  int context = 64;  ///< tokens of one micro-batch
};

/// Moments and counter before the first step: all zero, or generic values, so that a lost or reset
/// state is detected.
enum class InitialState : std::uint8_t { zero, seeded };

/// Where a part of every rank's state is stored (common/step/offload.hpp); lists as those of
/// RunConfig.
struct OffloadConfig {
  std::vector<double> fractions = {0};
  std::vector<OffloadOrder> orders = {OffloadOrder::flat};
  std::vector<OffloadPlace> places = {OffloadPlace::host};
  std::vector<std::int64_t> chunk_numels = {Offload{}.chunk_numel};
  std::vector<bool> overlaps = {true};
  std::vector<bool> grads = {false};
  std::string folder;

  bool operator==(const OffloadConfig&) const = default;
};

struct RunConfig {
  std::uint64_t seed = 1;
  std::int64_t steps = 20;
  std::int64_t micro_batches = 16;  ///< M, over all ranks
  std::vector<int> stages = {0, 1, 2, 3};
  std::vector<std::string> worlds = {"self", "threads:4", "mpi:2"};
  std::vector<std::string>
      grids;  ///< process grids "DPxCPxTP" (parse_grid); empty: data ranks only
  std::vector<MicroBatchOrder> orders = {MicroBatchOrder::by_stage};
  std::vector<LayoutKind> layouts = {LayoutKind::contract};
  std::vector<GradSum> grad_sums = {GradSum::tree};
  std::vector<Windows> windows = {Windows::on};
  std::vector<Transport> transport = {Transport::copies};
  int instances = 1;                  ///< optimizer instances the data ranks are split into (R11)
  std::int64_t persistent_numel = 0;  ///< stage 3: tensors of at most this many elements stay whole
  bool overlap = false;               ///< communicate while layers compute; changes no bit
  std::vector<DType> dtypes = {DType::bf16, DType::fp16};
  std::vector<std::int64_t> bucket_numels = {262144};  ///< elements, multiples of 1024
  std::vector<int> omp_threads = {0};  ///< per rank; 0: cores of this machine / ranks
  InitialState initial_state = InitialState::zero;
  std::int64_t initial_step =
      -1;  ///< steps applied before the run; -1: 7 if the state is seeded, else 0
  std::int64_t overflow_step =
      0;  ///< in this step one element of one gradient is made infinite; 0: never
  /// the tensor whose last element that is; "": the last tensor that has elements
  std::string overflow_tensor;
  bool idle_tensors =
      false;  ///< some tensors get no gradient in some steps, or from some micro-batches
  LossReduction loss_reduction = LossReduction::mean;
  OnNonfinite on_nonfinite = OnNonfinite::skip;
  MissingGrad missing_grad = MissingGrad::zero;
  ParamRounding param_rounding = ParamRounding::nearest;  ///< stochastic: bf16 parameters only
  std::string text;  ///< file to train on; "": default_text.txt
  double comm_timeout_s = 60;
  OffloadConfig offload;
  ModelConfig model;
  ParamScaling scaling;  ///< used with e4m3 and e5m2; other parameters have no scales
  OptimizerHyper optimizer;
  StateFormats state_formats;  ///< of the state between steps (R25)
  LossScalerConfig scaler;     ///< used with fp16; bf16 and fp32 run without one
  ScheduleConfig schedule;
  /// in order: the first rule that matches a tensor applies
  std::vector<GroupRule> param_groups;
  std::vector<ClipGroupRule> clip_groups;  ///< the same, independent of param groups
  /// rule muon: globs of the tensors of two dimensions that are updated as adamw
  std::vector<std::string> muon_adamw = {"*embedding*", "head.*"};
  std::vector<MatrixSplitRule>
      matrix_splits;  ///< rule muon: the first rule that matches a matrix applies
  // Rule muon; they change no bit.
  MatrixOwners matrix_owners = MatrixOwners::every;
  MatrixTensorParallel matrix_tensor_parallel = MatrixTensorParallel::duplicated;
};

/// Defaults of the main job (workload byte_gpt): the values of verification/cases/config/defaults.toml.
RunConfig main_config();

/// Defaults of the small workload (byte_gpt_tiny): odd sizes, 6 steps, one of them skipped, non-zero first
/// state.
RunConfig tiny_config();

/// Assigns every field its value in tiny_config().
void set_tiny(RunConfig& config);

/// Applies the settings in a TOML text; its groups replace all earlier groups of their kind. Errors
/// (ErrorCode::config), all with file, line and key: malformed TOML, an unknown key (with the
/// nearest valid one), a value of the wrong type. validate() checks afterwards whether the values
/// fit together.
void apply_toml(RunConfig& config, std::string_view text, const std::string& file_name);

/// The same from a file. Errors: also when the file cannot be read, or is JSON.
void apply_toml_file(RunConfig& config, const std::string& path);

/// Errors (ErrorCode::config): the text is JSON; of a configuration of DeepSpeed the message has its
/// settings in this project's terms.
void refuse_deepspeed(std::string_view text, const std::string& file_name);

/// Checks values against each other and against the contract's ranges, as far as no model is
/// needed; make_param_groups() checks which tensors a group matches. Errors: ErrorCode::config.
void validate(const RunConfig& config);

/// fp32, bf16, fp16, e4m3 or e5m2. Errors: ErrorCode::config.
DType parse_param_dtype(const std::string& text);

/// The formats that parameters may have.
inline constexpr DType param_dtypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::e4m3,
                                         DType::e5m2};

/// The value of an enumeration with names_of() whose name is `text`; `key` is its setting. Errors
/// (ErrorCode::config): no such name; the message lists all names and suggests the nearest one.
template <class Choice>
Choice parse_choice(const std::string& key, const std::string& text);

/// The index of `text` among `names`, for parse_choice().
std::size_t index_of_name(const std::string& key, const std::string& text,
                          Span<const std::string_view> names);

/// Names in quotation marks: "a", "b" or "c".
std::string one_of(Span<const std::string_view> names);

template <class Choice>
Choice parse_choice(const std::string& key, const std::string& text) {
  return static_cast<Choice>(index_of_name(key, text, names_of(Choice{})));
}

}  // namespace zeroproof
