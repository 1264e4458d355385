#include "verification/tools/train/checkpoints/file_state.hpp"

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/same_value.hpp"

namespace zeroproof::verification {
namespace {

std::vector<float> floats(const SafetensorsReader& file, const SafeTensor& tensor,
                          std::int64_t first, std::int64_t count) {
  std::vector<float> values(count);
  file.read(tensor, first * 4, std::as_writable_bytes(Span<float>(values)));
  return values;
}

void require_tensor(const SafetensorsReader& file, const std::string& name, SafeDType dtype,
                    const std::vector<std::int64_t>& shape, const std::string& remedy) {
  const SafeTensor* const there = file.find(name);
  ZP_CHECK(there != nullptr && there->dtype == dtype && there->shape == shape, ErrorCode::config,
           file.label() +
               (there == nullptr ? " has no tensor " : " has another dtype or shape for ") +
               shown_name(name),
           "the run would continue as another training", remedy);
}

}  // namespace

std::string code_name(const std::string& state, const std::string& tensor) {
  return state + "_code." + tensor;
}

std::string scale_name(const std::string& state, const std::string& tensor) {
  return state + "_scale." + tensor;
}

FileState::FileState(const SafetensorsReader& file, std::map<std::string, StateFormat> scaled)
    : file_(file), scaled_(std::move(scaled)) {}

void FileState::require(const std::string& state, const CheckpointTensor& tensor) const {
  require_tensor(file_, state + "." + tensor.name, SafeDType::f32, tensor.shape,
                 "give every buffer of every parameter, F32, in its shape");
  const auto format = scaled_.find(state);
  if (format == scaled_.end()) return;
  const std::string code = code_name(state, tensor.name), scale = scale_name(state, tensor.name);
  if (file_.find(code) == nullptr && file_.find(scale) == nullptr) return;
  const SafeDType dtype = safe_dtype(dtype_of(format->second));
  const std::string remedy =
      "give codes, " + std::string(name(dtype)) +
      ", in the shape of the parameter, and F32 scales of every 128 of its elements, "
      "or leave both out: the values are then encoded again";
  require_tensor(file_, code, dtype, tensor.shape, remedy);
  require_tensor(file_, scale, SafeDType::f32, {numel_of(state + "_scale", tensor)}, remedy);
}

StoredChunk FileState::stored(StateFormat format, const std::string& state,
                              const CheckpointTensor& tensor, std::int64_t first,
                              std::int64_t count) const {
  StoredChunk chunk(format, count);
  const std::vector<float> values =
      floats(file_, *file_.find(state + "." + tensor.name), first, count);
  const SafeTensor* const codes = file_.find(code_name(state, tensor.name));
  if (codes == nullptr) {
    chunk.store(values);
    return chunk;
  }
  const std::int64_t code_bytes = num_bytes(codes->dtype);
  std::vector<std::byte> bytes(count * code_bytes);
  file_.read(*codes, first * code_bytes, bytes);
  const std::int64_t block = first / state_block_numel;
  const std::int64_t blocks = (first + count + state_block_numel - 1) / state_block_numel - block;
  chunk.take(widened_codes(format, bytes),
             floats(file_, *file_.find(scale_name(state, tensor.name)), block, blocks));
  const std::vector<float> read = chunk.values();
  const auto differs = std::mismatch(values.begin(), values.end(), read.begin(), same_value).first;
  ZP_CHECK(differs == values.end(), ErrorCode::config,
           file_.label() + " has, of element " +
               std::to_string(first + (differs - values.begin())) + " of " +
               shown_name(state + "." + tensor.name) +
               ", a value that is not its code times its scale",
           "one of them was changed without the others",
           "leave out " + shown_name(codes->name) +
               " and its scales: the values are then encoded again");
  return chunk;
}

void FileState::read(const std::string& state, const CheckpointTensor& tensor, std::int64_t first,
                     Span<float> target) const {
  const auto count = static_cast<std::int64_t>(target.size());
  const bool scales = is_scale_name(state);
  const std::string of =
      scales ? state.substr(0, state.size() - std::string_view("_scale").size()) : state;
  const auto format = scaled_.find(of);
  if (format == scaled_.end())
    return file_.read(*file_.find(state + "." + tensor.name), first * 4,
                      std::as_writable_bytes(target));
  const std::int64_t unit = scales ? state_block_numel : 1;
  ZP_CHECK(first * unit % state_block_numel == 0, ErrorCode::internal,
           "a read would split a block of state", "a block has one scale",
           "report this as a defect");
  const std::int64_t end = std::min((first + count) * unit, numel(tensor));
  auto to = target.begin();
  for (std::int64_t at = first * unit; at < end; at += most_at_once) {
    const StoredChunk chunk =
        stored(format->second, of, tensor, at, std::min(most_at_once, end - at));
    if (scales) {
      to = std::copy(chunk.scale_inv().begin(), chunk.scale_inv().end(), to);
    } else {
      const std::vector<float> codes = widened_codes(format->second, chunk.code_bytes());
      to = std::copy(codes.begin(), codes.end(), to);
    }
  }
}

}  // namespace zeroproof::verification
