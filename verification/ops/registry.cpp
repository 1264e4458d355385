#include <algorithm>

#include "common/base/error.hpp"
#include "verification/ops/families.hpp"

namespace zeroproof::verification {
namespace {

std::vector<Op> make_all() {
  std::vector<Op> ops;
  for (const auto family : {step_scalars_ops,  grad_sum_ops,      fused_fold_ops,
                            binned_sum_ops,    grad_scale_ops,    grad_stats_ops,
                            loss_scaler_ops,   grad_norm_ops,     norm_form_ops,
                            clip_ops,          adam_ops,          one_buffer_ops,
                            lamb_ops,          muon_ops,          cast_ops,
                            master_split_ops,  scale_recipe_ops,  block_scale_ops,
                            fused_step_ops,    dot_ops,           lbfgs_ops,
                            elementary_ops,    activation_ops,    softmax_ops,
                            norm_layer_ops,    cross_entropy_ops, dropout_and_weight_ops,
                            fake_quantize_ops, histogram_ops,     calibration_ops}) {
    for (Op& op : family()) {
      if (op.variants.empty()) op.variants.emplace_back("plain");
      ops.push_back(std::move(op));
    }
  }
  return ops;
}

}  // namespace

std::string_view name(Exactness exactness) {
  switch (exactness) {
    case Exactness::bitwise:
      return "bitwise";
    case Exactness::ordered:
      return "ordered";
    case Exactness::integer:
      return "integer";
    case Exactness::drawn:
      return "drawn";
    case Exactness::bounded:
      return "bounded";
  }
  return "?";
}

Operand input(std::string name, Content content, DType dtype) {
  return {std::move(name), dtype, Access::in, content, 1, 0};
}
Operand output(std::string name, DType dtype) {
  return {std::move(name), dtype, Access::out, Content::value, 1, 0};
}
Operand in_place(std::string name, Content content, DType dtype) {
  return {std::move(name), dtype, Access::in_out, content, 1, 0};
}
Operand per_element(Operand operand, std::int64_t count) {
  operand.per_element = count;
  return operand;
}
Operand fixed(Operand operand, std::int64_t count) {
  operand.per_element = 0;
  operand.count = count;
  return operand;
}
Operand shaped(Operand operand, std::vector<std::string> extents) {
  operand.per_element = 0;
  operand.extents = std::move(extents);
  return operand;
}

std::vector<std::int64_t> shape_of(const Operand& operand, std::int64_t numel,
                                   const std::vector<OpSetting>& settings) {
  if (operand.extents.empty() && operand.per_element == 0) return {operand.count};
  if (operand.extents.empty() && operand.per_element == 1) return {numel};
  if (operand.extents.empty()) return {numel, operand.per_element};
  std::vector<std::int64_t> shape;
  for (const std::string& extent : operand.extents) {
    const auto found = std::ranges::find(settings, extent, &OpSetting::name);
    ZP_CHECK(found != settings.end(), ErrorCode::internal,
             operand.name + " has the extent " + extent, "the call has no such setting",
             "add it to Op::settings");
    shape.push_back(std::get<std::int64_t>(found->value));
  }
  return shape;
}

Operand in_bf16(Operand operand) {
  operand.dtype = DType::bf16;
  operand.cast = true;
  return operand;
}

const std::vector<Fill>& number_fills() {
  static const std::vector<Fill> fills = {Fill::exact_sum, Fill::wide,    Fill::ties,
                                          Fill::subnormal, Fill::special, Fill::training,
                                          Fill::zero};
  return fills;
}

const std::vector<Op>& all_ops() {
  static const std::vector<Op> ops = make_all();
  return ops;
}

const Op* find_op(const std::string& name) {
  for (const Op& op : all_ops()) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace zeroproof::verification
