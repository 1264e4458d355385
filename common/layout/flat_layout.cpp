#include "common/layout/flat_layout.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include "common/base/error.hpp"

namespace zeroproof {
namespace {

constexpr std::int64_t max_numel = std::numeric_limits<std::int64_t>::max() / 16;

std::int64_t round_up(std::int64_t numel) {
  return (numel + layout_alignment - 1) / layout_alignment * layout_alignment;
}

}  // namespace

std::int64_t ParamSpec::numel() const {
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  std::int64_t product = 1;
  for (const std::int64_t dim : shape) {
    ZP_CHECK(dim >= 0, ErrorCode::invalid_argument,
             "parameter " + name + " has dimension " + std::to_string(dim),
             "a shape counts elements", "give dimensions of 0 or more");
    if (empty) continue;
    ZP_CHECK(product <= max_numel / dim, ErrorCode::invalid_argument,
             "parameter " + name + " is too large",
             "element indices are 64-bit and byte offsets must fit too", "split the parameter");
    product *= dim;
  }
  return empty ? 0 : product;
}

FlatLayout::FlatLayout(const std::vector<ParamSpec>& params) {
  std::set<std::string_view> seen;
  tensors_.reserve(params.size());
  for (const ParamSpec& param : params) {
    ZP_CHECK(!param.name.empty(), ErrorCode::invalid_argument, "a parameter has an empty name",
             "reports name parameters", "name every parameter");
    ZP_CHECK(seen.insert(param.name).second, ErrorCode::invalid_argument,
             "parameter name " + param.name + " is used twice",
             "reports could not distinguish the two", "use unique parameter names");
    const std::int64_t numel = param.numel();
    ZP_CHECK(padded_numel_ <= max_numel - round_up(numel), ErrorCode::invalid_argument,
             "the parameters have too many elements together", "element indices are 64-bit",
             "split the model into several layouts");
    tensors_.push_back({param.name, param.shape, numel, padded_numel_});
    numel_ += numel;
    padded_numel_ += round_up(numel);
  }
}

std::int64_t FlatLayout::tensor_at(std::int64_t global_index) const {
  // upper_bound returns the first tensor behind the index. Of tensors with the same start, empty
  // ones come first, so the one before it is the tensor with the index, or one that ends before it.
  const auto after = std::upper_bound(
      tensors_.begin(), tensors_.end(), global_index,
      [](std::int64_t index, const TensorSlot& slot) { return index < slot.begin; });
  if (after == tensors_.begin()) return -1;
  const auto slot = after - 1;
  return global_index - slot->begin < slot->numel ? slot - tensors_.begin() : -1;
}

std::string FlatLayout::coordinates(std::int64_t global_index) const {
  const std::int64_t tensor = tensor_at(global_index);
  if (tensor < 0) return "padding";
  const TensorSlot& slot = tensors_[tensor];
  std::int64_t rest = global_index - slot.begin;
  std::string text;
  for (std::size_t axis = slot.shape.size(); axis-- > 0;) {
    text = std::to_string(rest % slot.shape[axis]) + (text.empty() ? "" : ", ") + text;
    rest /= slot.shape[axis];
  }
  return "[" + text + "]";
}

std::vector<Piece> FlatLayout::pieces(const std::vector<FlatRange>& ranges) const {
  std::vector<Piece> result;
  std::int64_t local = 0;
  for (const FlatRange& range : ranges) {
    // Binary search, because there can be as many ranges as tensors: tensors end in the order in
    // which they begin.
    auto slot = std::ranges::upper_bound(tensors_, range.begin, {}, [](const TensorSlot& tensor) {
      return tensor.begin + tensor.numel;
    });
    for (; slot != tensors_.end() && slot->begin < range.end; ++slot) {
      const std::int64_t begin = std::max(range.begin, slot->begin);
      const std::int64_t end = std::min(range.end, slot->begin + slot->numel);
      if (begin >= end) continue;
      result.push_back({slot - tensors_.begin(), begin - slot->begin, begin,
                        local + begin - range.begin, end - begin});
    }
    local += range.numel();
  }
  return result;
}

}  // namespace zeroproof
