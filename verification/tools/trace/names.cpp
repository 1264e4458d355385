// Names of the elements and words of a trace.

#include <algorithm>

#include "verification/cases/step_scalar_names.hpp"
#include "verification/tools/trace/sections.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t limb_words = 23;  // 21 limbs and two counts

/// A number for every block of parameters in 8 bits (R24).
bool is_of_blocks(BufferId id) {
  switch (id) {
    case BufferId::amax:
    case BufferId::amax_history:
    case BufferId::param_scale:
    case BufferId::param_scale_inv:
    case BufferId::column_amax:
    case BufferId::column_scale:
    case BufferId::column_scale_inv:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<std::int64_t> elements_of(const FlatLayout& layout) {
  std::vector<std::int64_t> elements;
  for (const TensorSlot& slot : layout.tensors()) {
    for (std::int64_t i = 0; i < slot.numel; ++i) elements.push_back(slot.begin + i);
  }
  return elements;
}

std::vector<std::string> element_names(const FlatLayout& layout) {
  std::vector<std::string> names;
  for (const std::int64_t element : elements_of(layout)) {
    std::string coordinates = layout.coordinates(element);
    coordinates.erase(std::remove(coordinates.begin(), coordinates.end(), ' '), coordinates.end());
    names.push_back(layout.tensors()[layout.tensor_at(element)].name + coordinates);
  }
  return names;
}

bool holds_words(BufferId id) {
  switch (id) {
    case BufferId::step_scalars:
    case BufferId::applied_steps:
    case BufferId::found_inf:
    case BufferId::loss_scaler:
    case BufferId::norm_limbs:
    case BufferId::grad_amax:
    case BufferId::grad_norm:
    case BufferId::clip_coef:
    case BufferId::tensor_steps:
    case BufferId::trust_ratio:
      return true;
    default:
      return is_of_blocks(id);
  }
}

std::string word_name(BufferId id, std::int64_t word) {
  static constexpr const char* scaler[] = {"log2_scale", "growth_tracker", "hysteresis_left"};
  if (id == BufferId::step_scalars) {
    return std::string(step_scalar_names[word % num_step_scalar_words]);
  }
  if (id == BufferId::loss_scaler) return scaler[word];
  if (is_of_blocks(id) || id == BufferId::trust_ratio)
    return std::string(name(id)) + "[" + std::to_string(word) + "]";
  if (id != BufferId::norm_limbs) return std::string(name(id));
  const std::int64_t limb = word % limb_words;
  if (limb == limb_words - 2) return "nan_count";
  return limb == limb_words - 1 ? "inf_count" : "limb" + std::to_string(limb);
}

DType word_dtype(const TracedBuffer& buffer, std::int64_t word) {
  const bool flag = word % num_step_scalar_words >= num_step_scalar_words - 2;
  return buffer.id == BufferId::step_scalars && !flag ? DType::fp32 : buffer.dtype;
}

std::int64_t clip_group_of(BufferId id, std::int64_t word) {
  return id == BufferId::norm_limbs ? word / limb_words : word;
}

}  // namespace zeroproof::verification
