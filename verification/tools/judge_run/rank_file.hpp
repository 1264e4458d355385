#pragma once
// One rank's file of a recording of training steps (README.md).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/io/safetensors/safetensors.hpp"
#include "verification/tools/identify/hyper.hpp"

namespace zeroproof::verification {

/// Elements [start, start + length) of a flattened parameter.
struct RunBlock {
  std::int64_t start = 0, length = 0;
  std::int64_t end() const { return start + length; }
  bool operator==(const RunBlock&) const = default;
};
/// In ascending order, without overlap.
using RunBlocks = std::vector<RunBlock>;
std::int64_t numel_of(const RunBlocks& blocks);
/// The element of the parameter at each recorded place.
std::vector<std::int64_t> elements_of(const RunBlocks& blocks);

struct RunParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
  std::size_t group = 0;
  std::int64_t t = 0;  ///< applied updates after this step
  RunBlocks owned;     ///< recorded elements that this rank updates
  RunBlocks leaf;      ///< all recorded elements
  std::optional<double> sum_squares;
  bool replicated = false;

  bool sampled() const { return numel_of(leaf) < numel; }
};

struct RunGroup {
  DialectHyper hyper;     ///< its t is not used
  bool is_other = false;  ///< a rule that is not known; its update is not judged
  std::string text;       ///< as JSON
};

/// A tensor, widened.
struct RunValues {
  DType dtype = DType::fp32;
  std::vector<float> values;
};

/// The metadata, checked, and the tensors, read when they are needed.
class RankFile {
 public:
  /// Errors (ErrorCode::io, with the file's name): no such file, no safetensors; a key or tensor that is missing,
  /// unknown, of another type or size, or out of its range; blocks that overlap or leave the parameter.
  explicit RankFile(const std::string& path);

  std::string path, program;
  std::int64_t rank = 0, world = 1, step = 1, micro_batches = 1;
  bool mean = false;
  double loss_scale = 1;
  bool applied = true;
  std::optional<double> max_norm, norm;
  double norm_type = 2;  ///< may be infinite
  double clip_eps = 1e-6;
  std::vector<RunGroup> groups;
  std::vector<RunParameter> parameters;

  const RunGroup& group_of(const RunParameter& parameter) const { return groups[parameter.group]; }

  bool has(const std::string& kind, const RunParameter& parameter) const;
  /// The tensor KIND.NAME; nothing if it is not recorded. Errors (ErrorCode::io): the file became shorter.
  std::optional<RunValues> read(const std::string& kind, const RunParameter& parameter) const;

 private:
  void check_tensors() const;

  std::shared_ptr<SafetensorsReader> reader_;
};

/// States that a rule keeps, master first; of an unknown rule those it may keep.
std::vector<std::string> run_buffers(const RunGroup& group);

/// Errors (ErrorCode::io): "FILE: PROBLEM (WHY); REMEDY".
[[noreturn]] void refuse_recording(const std::string& file, const std::string& problem,
                                   const std::string& why, const std::string& remedy);

}  // namespace zeroproof::verification
