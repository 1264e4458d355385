#include "verification/model/byte_gpt_grid.hpp"

#include <utility>

#include "verification/model/byte_gpt_pass.hpp"
#include "verification/model/byte_gpt_tensors.hpp"

namespace zeroproof::workload {

template <class Real>
double byte_gpt_grid_loss_and_grad(const ByteGptShape& shape, const ByteGptGroups& groups,
                                   const FlatLayout& layout, Span<const Real> flat_params,
                                   Span<const std::uint8_t> tokens, Real loss_scale,
                                   Span<Real> flat_grad, InstructionSet set) {
  check_shape(shape);
  const ByteGptPlace place(shape, groups);
  const std::vector<ParamSpec> local =
      byte_gpt_tp_model(shape, place.tp_size, place.tp_rank).params;
  check_layout(local, layout, numel(flat_params));
  check_layout(local, layout, numel(flat_grad));
  const Tensors<const Real> params(layout, flat_params);
  BytePass<Real> pass(shape, place, tokens, set);
  pass.run_forward(params);
  pass.run_backward(params, loss_scale, Tensors<Real>(layout, flat_grad));
  return pass.loss();
}

template double byte_gpt_grid_loss_and_grad(const ByteGptShape&, const ByteGptGroups&,
                                            const FlatLayout&, Span<const float>,
                                            Span<const std::uint8_t>, float, Span<float>,
                                            InstructionSet);
template double byte_gpt_grid_loss_and_grad(const ByteGptShape&, const ByteGptGroups&,
                                            const FlatLayout&, Span<const double>,
                                            Span<const std::uint8_t>, double, Span<double>,
                                            InstructionSet);

ByteGptGrid::ByteGptGrid(const ByteGptShape& shape, const ByteGptGroups& groups, ByteGptData data,
                         AfterGrad after_grad, InstructionSet set)
    : ByteGptLayered(shape, groups, std::move(data), std::move(after_grad), set) {
  const ByteGptPlace place(shape, groups);
  placements_ = byte_gpt_tp_model(shape, place.tp_size, place.tp_rank).placement;
}

}  // namespace zeroproof::workload
