#include "verification/cases/overflow.hpp"

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"

namespace zeroproof::verification {

std::int64_t overflow_tensor(const RunConfig& config, const FlatLayout& layout) {
  const std::string& wanted = config.overflow_tensor;
  for (std::size_t t = layout.tensors().size(); t-- > 0;) {
    const TensorSlot& slot = layout.tensors()[t];
    if (slot.numel > 0 && (wanted.empty() || slot.name == wanted))
      return static_cast<std::int64_t>(t);
  }
  ZP_CHECK(wanted.empty(), ErrorCode::config,
           "run.overflow_tensor '" + wanted + "' is no tensor with elements",
           "its last element is to overflow", "name one of the model's tensors, or leave it empty");
  return -1;
}

void plant_infinity(const FlatLayout& layout, std::int64_t tensor, const TensorView& leaf,
                    float value) {
  if (tensor < 0) return;
  const TensorSlot& slot = layout.tensors()[tensor];
  const std::int64_t last = slot.begin + slot.numel - 1;
  store_element(leaf, last, value);
}

}  // namespace zeroproof::verification
