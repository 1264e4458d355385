#include <map>
#include <utility>

#include "common/base/digest.hpp"
#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "tests/fuzz/checkpoint_check.hpp"
#include "tests/fuzz/promise.hpp"

namespace zeroproof::tests {
namespace {

/// For small tensors, element by element: every state has every element of every tensor exactly
/// once.
void check_elements(const CheckpointManifest& manifest) {
  constexpr std::int64_t most = 4096;
  std::int64_t all = 0;
  for (const CheckpointTensor& tensor : manifest.tensors) {
    const std::int64_t count = numel(tensor);
    promise(count >= 0, "tensors have no negative number of elements");
    if (count > most || (all += count) > most) return;
  }
  std::map<std::string, std::vector<std::vector<int>>> times;
  for (const CheckpointPiece& piece : manifest.pieces) {
    auto& of_state = times[piece.state];
    if (of_state.empty()) {
      if (static_cast<std::int64_t>(times.size()) * all > 16 * most) return;
      for (const CheckpointTensor& tensor : manifest.tensors)
        of_state.emplace_back(static_cast<std::size_t>(numel(tensor)), 0);
    }
    for (std::int64_t e = 0; e < piece.numel; ++e) ++of_state[piece.tensor].at(piece.element(e));
  }
  for (const auto& [state, tensors] : times) {
    for (const auto& elements : tensors) {
      for (const int count : elements) promise(count == 1, "every element appears exactly once");
    }
  }
}

void check_manifest(const CheckpointManifest& manifest) {
  promise(manifest.step >= 0, "steps are not negative");
  for (const CheckpointTensor& tensor : manifest.tensors)
    promise(safetensors_name_problem(tensor.name).empty(), "names of tensors can be printed");
  for (const FileRecord& file : manifest.files) {
    promise(is_checkpoint_file_name(file.name), "names of files are not paths");
    promise(static_cast<std::int64_t>(file.chunks.size()) ==
                file.num_bytes / chunk_bytes + (file.num_bytes % chunk_bytes != 0 ? 1 : 0),
            "every chunk has a hash");
  }
  for (const CheckpointPiece& piece : manifest.pieces) {
    promise(piece.file >= 0 && piece.file < static_cast<std::int64_t>(manifest.files.size()) &&
                piece.tensor >= 0 &&
                piece.tensor < static_cast<std::int64_t>(manifest.tensors.size()),
            "pieces belong to listed files and tensors");
    const std::int64_t count = numel(manifest.tensors[piece.tensor]);
    promise(piece.numel > 0 && piece.element(0) >= 0 && piece.element(piece.numel - 1) < count,
            "pieces are inside of their tensors");
    promise(is_checkpoint_file_name(piece.state), "names of states are not paths");
  }
  check_elements(manifest);
}

}  // namespace

std::string with_hash(std::string_view body) {
  const Digest digest = raw_digest(body.data(), static_cast<std::int64_t>(body.size()));
  return "{\"hash\":\"" + to_hex(digest) + "\",\"manifest\":" + std::string(body) + "}\n";
}

bool manifest_accepts(std::string_view text) {
  CheckpointManifest manifest;
  try {
    manifest = parse_manifest(text, "memory");
  } catch (const Error& error) {
    promise(error.code() == ErrorCode::damaged || error.code() == ErrorCode::unavailable,
            "rejected manifests are damaged, or of a later version");
    promise_sentence(error);
    return false;
  }
  check_manifest(manifest);
  const std::string again = manifest_text(manifest);
  const CheckpointManifest second = parse_manifest(again, "round trip");
  promise(second.tensors == manifest.tensors && second.files == manifest.files &&
              second.pieces == manifest.pieces && second.run == manifest.run &&
              second.step == manifest.step,
          "a manifest survives a round trip");
  promise(manifest_text(second) == again, "a manifest has one text");
  return true;
}

}  // namespace zeroproof::tests
