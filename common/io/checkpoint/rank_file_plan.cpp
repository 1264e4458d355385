#include "common/io/checkpoint/rank_file_plan.hpp"

#include <bit>
#include <map>

#include "common/io/safetensors/safetensors_header.hpp"

namespace zeroproof {

static_assert(std::endian::native == std::endian::little, "files have little-endian numbers");

RankFilePlan plan_rank_file(const CheckpointManifest& names,
                            const std::vector<CheckpointPiece>& pieces) {
  std::vector<SafeTensorSpec> specs;
  std::map<std::string, std::size_t> by_name;
  for (const CheckpointPiece& piece : pieces) {
    const CheckpointTensor& tensor = names.tensors[piece.tensor];
    const bool is_whole = piece.numel == numel(tensor) && piece.row_numel == piece.row_stride &&
                          !is_scale_name(piece.state);
    by_name[names.piece_name(piece)] = specs.size();
    specs.push_back({names.piece_name(piece), SafeDType::f32,
                     is_whole ? tensor.shape : std::vector<std::int64_t>{piece.numel}});
  }
  SafetensorsLimits limits;
  limits.header_bytes = largest_safetensors_header;
  const SafetensorsHeader header =
      plan_safetensors(specs, {{"run", names.run}, {"step", std::to_string(names.step)}}, limits);

  RankFilePlan plan;
  const std::string text = safetensors_header_text(header);
  const std::uint64_t length = text.size();
  plan.head.assign(reinterpret_cast<const char*>(&length), sizeof length);
  plan.head += text;
  for (const SafeTensor& tensor : header.tensors) plan.order.push_back(by_name.at(tensor.name));
  return plan;
}

}  // namespace zeroproof
