#pragma once
// Linear layers with weights split by tensor parallelism. "group rows" are the positions of the TP
// group, "own rows" this rank's; "partial" is a fold of some blocks of a sum, to be completed over
// the TP group.

#include "verification/model/byte_gpt_layers.hpp"
#include "verification/model/byte_gpt_place.hpp"
#include "verification/model/byte_gpt_tensors.hpp"

namespace zeroproof::workload {

/// Observes the inputs of linear layers in the forward pass, and may replace them.
template <class Real>
class LinearObserver {
 public:
  virtual ~LinearObserver() = default;
  /// weight: the layer's, by its place in registration order. The returned view is valid until the
  /// next call.
  virtual Matrix<const Real> input(int weight, Matrix<const Real> x) = 0;
};

/// Context of every layer of a pass. shape.context is the number of positions of the micro-batch.
template <class Real>
struct Pass {
  InstructionSet set;
  ByteGptShape shape;
  ByteGptPlace place;
  Tensors<const Real> params;
  LinearObserver<Real>* observer = nullptr;

  Matrix<const Real> input(int weight, Matrix<const Real> x) const {
    return observer == nullptr ? x : observer->input(weight, x);
  }
  BlockRange positions() const { return {shape.context}; }
  BlockRange group_rows() const { return place.group_rows(shape.context); }
  BlockRange own_rows() const { return place.own_rows(shape.context); }
  /// The own rows of a matrix that has the rows of the TP group.
  template <class T>
  Matrix<T> own(Matrix<T> group) const {
    return group.row_range(own_rows().begin() - group_rows().begin(), own_rows().numel());
  }
};

/// y = x weight + bias, split by columns: this rank computes some outputs of all rows of the group.
/// x [group rows, inputs], y [group rows, its outputs]; the bias is added after the sum.
template <class Real>
void column_linear(const Pass<Real>& pass, Matrix<const Real> x, int weight, Matrix<Real> y);

/// d weight = x^T dy and d bias, folds over the group rows; dx = dy weight^T is a sum over all
/// `outputs`. dy [group rows, its outputs]; partial: [group rows, inputs], scratch. Returns dx [own
/// rows, inputs] in it.
template <class Real>
Matrix<Real> column_linear_backward(const Pass<Real>& pass, Matrix<const Real> x,
                                    Matrix<const Real> dy, const Tensors<Real>& grads, int weight,
                                    std::int64_t outputs, Matrix<Real> partial);

/// y = x weight + bias, split by rows: this rank has some of the `inputs` of all rows of the group.
/// x [group rows, its inputs]; partial: [group rows, outputs], scratch. Returns y [own rows,
/// outputs] in it.
template <class Real>
Matrix<Real> row_linear(const Pass<Real>& pass, Matrix<const Real> x, int weight,
                        std::int64_t inputs, Matrix<Real> partial);

/// d weight = x^T dy, a fold over the group rows; d bias, a fold over the own rows; dx = dy
/// weight^T. dy [own rows, outputs], dx [group rows, its inputs].
template <class Real>
void row_linear_backward(const Pass<Real>& pass, Matrix<const Real> x, Matrix<const Real> dy,
                         const Tensors<Real>& grads, int weight, Matrix<Real> dx);

}  // namespace zeroproof::workload
