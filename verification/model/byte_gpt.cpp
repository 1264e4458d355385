#include "verification/model/byte_gpt.hpp"

#include "verification/model/byte_gpt_pass.hpp"
#include "verification/model/byte_gpt_tensors.hpp"

namespace zeroproof::workload {

template <class Real>
double byte_gpt_loss_and_grad(const ByteGptShape& shape, const FlatLayout& layout,
                              Span<const Real> flat_params, Span<const std::uint8_t> tokens,
                              Real loss_scale, Span<Real> flat_grad, InstructionSet set) {
  check_layout(shape, layout, numel(flat_params));
  check_layout(shape, layout, numel(flat_grad));
  const Tensors<const Real> params(layout, flat_params);
  const Tensors<Real> grads(layout, flat_grad);
  BytePass<Real> pass(shape, ByteGptPlace{}, tokens, set);
  pass.run_forward(params);
  pass.run_backward(params, loss_scale, grads);
  return pass.loss();
}

template <class Real>
double byte_gpt_loss(const ByteGptShape& shape, const FlatLayout& layout,
                     Span<const Real> flat_params, Span<const std::uint8_t> tokens,
                     InstructionSet set) {
  check_layout(shape, layout, numel(flat_params));
  BytePass<Real> pass(shape, ByteGptPlace{}, tokens, set);
  pass.run_forward(Tensors<const Real>(layout, flat_params));
  return pass.loss();
}

#define ZP_INSTANTIATE(Real)                                                                       \
  template double byte_gpt_loss_and_grad(const ByteGptShape&, const FlatLayout&, Span<const Real>, \
                                         Span<const std::uint8_t>, Real, Span<Real>,               \
                                         InstructionSet);                                          \
  template double byte_gpt_loss(const ByteGptShape&, const FlatLayout&, Span<const Real>,          \
                                Span<const std::uint8_t>, InstructionSet)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
