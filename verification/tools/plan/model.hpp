#pragma once
// The planned model: names, shapes and split dimensions of its tensors, from a description, a
// file's header or a workload.

#include <string>
#include <vector>

#include "common/layout/flat_layout.hpp"

namespace zeroproof::verification {

struct PlannedTensor {
  ParamSpec spec;  ///< undistributed
  int tp_cut =
      -1;  ///< dimension that tensor parallelism splits; -1: every TP rank has the whole tensor
};

struct PlannedModel {
  std::string source;  ///< file or workload
  std::vector<PlannedTensor> tensors;
  bool says_cuts = true;  ///< false if the source has no split dimensions

  std::int64_t numel() const;
};

/// `what` is one of workload_names(), a file *.toml, a file *.safetensors, of which only the header
/// is read, an index *.index.json, a config.json, or a folder with one of the last three.
/// Errors: ErrorCode::config, naming file, line and key; ErrorCode::io if a file cannot be read.
PlannedModel load_model(const std::string& what);

/// The tensors of a safetensors file, from its header. Errors: config, it is a recording, quantized
/// or empty; io.
PlannedModel stored_model(const std::string& path);

/// A description in TOML: a list of [[tensor]] with name, shape, and optional `tp` (split
/// dimension) and `repeat`. A name with `repeat` holds {i}; neighbours with the same `repeat` are
/// repeated together, as the tensors of a layer are.
/// Errors (ErrorCode::config), with file, line and key.
PlannedModel parse_model_toml(const std::string& text, const std::string& file_name);

/// Tensors of one TP rank. Errors (ErrorCode::config): a split dimension that tp does not divide.
std::vector<ParamSpec> tp_shapes(const PlannedModel& model, int tp);

/// Ranges of tensors that are gathered and reduced together in stage 3 [ZeRO:units], from names:
/// neighbours that agree up to the first dot-separated part that ends in a digit ("layers.3",
/// "block3") are one unit, neighbours without such a part are one too.
std::vector<FlatRange> named_units(const FlatLayout& layout);

}  // namespace zeroproof::verification
