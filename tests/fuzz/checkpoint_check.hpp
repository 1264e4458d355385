#pragma once
// What must hold for any bytes whatever in a folder of a checkpoint: a reader refuses them with a sentence, or
// everything it says is true.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::tests {

/// A manifest of this body, with the hash that belongs to it: what somebody writes who knows the format.
std::string with_hash(std::string_view body);

/// Reads the text as a manifest. False if it was refused. Errors: std::logic_error, a promise was broken.
bool manifest_accepts(std::string_view text);

/// The files of a checkpoint of step 0 in a few bytes, so that what a fuzzer changes reaches every part of a reader.
struct CheckpointBytes {
  std::string body;                ///< of the manifest
  std::vector<std::string> files;  ///< rank-00000.safetensors and so on
  bool hash = true;                ///< the manifest gets the hash it should have
  bool records =
      true;  ///< "bytes" and "chunks" of its files too, where it is JSON with a list of files
};

/// From a byte of flags and, for the body and each file, two bytes of length and as many bytes as there are.
CheckpointBytes unpack_checkpoint(Span<const std::byte> bytes);
std::string pack_checkpoint(const CheckpointBytes& checkpoint);

/// Opens such a folder and reads all of it. As manifest_accepts().
bool checkpoint_accepts(Span<const std::byte> bytes);

}  // namespace zeroproof::tests
