#pragma once
// Invariant for any content of a checkpoint's folder: a reader rejects it with an error sentence,
// or returns consistent values.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::tests {

/// A manifest of this body with its correct hash: as written by a program that implements the
/// format.
std::string with_hash(std::string_view body);

/// Reads the text as a manifest. False if it was rejected. Errors: std::logic_error, an invariant is violated.
bool manifest_accepts(std::string_view text);

/// The files of a checkpoint of step 0 in a few bytes, so that mutations of a fuzzer reach every part of a reader.
struct CheckpointBytes {
  std::string body;                ///< body of the manifest
  std::vector<std::string> files;  ///< rank-00000.safetensors and so on
  bool hash = true;                ///< the manifest gets its correct hash
  bool records =
      true;  ///< "bytes" and "chunks" of its files too, where it is JSON with a list of files
};

/// From a byte of flags and, for the body and each file, two bytes of length and that many bytes.
CheckpointBytes unpack_checkpoint(Span<const std::byte> bytes);
std::string pack_checkpoint(const CheckpointBytes& checkpoint);

/// Opens such a folder and reads all of it. As manifest_accepts().
bool checkpoint_accepts(Span<const std::byte> bytes);

}  // namespace zeroproof::tests
