#pragma once
// One call of an operation as two safetensors files, for programs that share no code with this one:
// gen writes the inputs, judge compares the results.

#include <cstdint>
#include <string>

#include "common/io/safetensors/safetensors.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {

/// Arguments of gen, as typed.
struct CallRequest {
  std::string operation;  ///< "op/adamw_update", "adamw_update", "op/adamw_update/fill:ties"
  std::string fill;       ///< "" for training
  std::string numel, seed;
  std::string variant;  ///< number or name, "" for the first
};

/// A call that can be written and judged: its settings have names, and its results are compared bit
/// by bit.
struct CallChoice {
  const Op* op = nullptr;
  CallShape shape;

  std::string text()
      const;  ///< "op/adamw_update, fill training, numel 1000, seed 1, variant typical plain"
};

/// Errors (ErrorCode::config): an operation, fill or variant that does not exist, naming the nearest; a number out of
/// range; an operation whose settings have no names.
CallChoice choose_call(const CallRequest& request);

/// Writes inputs as before.NAME and everything else as metadata: operation, setting.NAME, fill,
/// numel, seed, variant, contract, the expected outputs (a JSON list of name, dtype and shape), and
/// a digest of the results; with `results`, these as after.NAME. Errors (ErrorCode::io): the file
/// cannot be written.
void write_call(const CallChoice& choice, const std::string& path, const OpCall* results = nullptr);

/// The call described by a file's metadata, with unchanged inputs; other content is ignored. Errors
/// (ErrorCode::io, with the file's name): no such call, or other inputs.
CallChoice described_call(const SafetensorsReader& reader, const std::string& path);

/// True if the metadata are those of a call.
bool describes_call(const SafetensorsReader& reader);

/// The call of a file written by write_call, inputs included. Errors (ErrorCode::io, with the
/// file's name): a file of another kind or of another version of the contract, or a file that was
/// changed.
CallChoice read_call(const std::string& path);

/// A tensor that a program has to write.
SafeTensorSpec wanted_output(const Operand& operand, const CallChoice& choice);

/// Tensors of all results of a call.
std::string digest_of(const CallChoice& choice, const OpCall& results);

/// The results of the same call computed by the reference.
OpCall reference_results(const CallChoice& choice);

}  // namespace zeroproof::verification
