// Wrong momenta, iterations, step sizes and updates of Muon. The correct parts follow R28.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/layout/tensor_blocks.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update/product_folds.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;

std::size_t to_size(std::int64_t index) { return static_cast<std::size_t>(index); }

// Momentum.

/// tau = 1, as the documentation of a library has it whose program takes 1 - momentum [Muon:momentum].
void momentum_of_documentation(const Exec& exec, const MuonMomentumOptions& options,
                               const StepScalars& c, Span<const float> grad, Span<float> exp_avg,
                               Span<float> direction) {
  StepScalars other = c;
  other.one_minus_dampening = 1;
  cuda::host::muon_momentum(exec, options, other, grad, exp_avg, direction);
}

void without_nesterov(const Exec& exec, const MuonMomentumOptions& options, const StepScalars& c,
                      Span<const float> grad, Span<float> exp_avg, Span<float> direction) {
  cuda::host::muon_momentum(exec, {false, options.maximize}, c, grad, exp_avg, direction);
}

void maximize_ignored(const Exec& exec, const MuonMomentumOptions& options, const StepScalars& c,
                      Span<const float> grad, Span<float> exp_avg, Span<float> direction) {
  cuda::host::muon_momentum(exec, {options.nesterov, false}, c, grad, exp_avg, direction);
}

/// The direction looks ahead from the momentum as it was before this gradient.
void nesterov_of_old_momentum(const Exec& exec, const MuonMomentumOptions& options,
                              const StepScalars& c, Span<const float> grad, Span<float> exp_avg,
                              Span<float> direction) {
  const std::vector<float> old(exp_avg.begin(), exp_avg.end()), g(grad.begin(), grad.end());
  cuda::host::muon_momentum(exec, options, c, g, exp_avg, direction);
  for (std::size_t i = 0; i < g.size(); ++i) {
    const float y = c.one_minus_dampening * (options.maximize ? -g[i] : g[i]);
    direction[i] = y + c.momentum * old[i];
  }
}

/// start + weight * (end - start), in the form that depends on the weight.
float lerp(float start, float end, float weight) {
  return weight < 0.5F ? start + weight * (end - start) : end - (end - start) * (1 - weight);
}

void momentum_by_lerp(const Exec&, const MuonMomentumOptions& options, const StepScalars& c,
                      Span<const float> grad, Span<float> exp_avg, Span<float> direction) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const float g = options.maximize ? -grad[i] : grad[i];
    exp_avg[i] = lerp(exp_avg[i], g, c.one_minus_dampening);
    direction[i] = options.nesterov ? lerp(g, exp_avg[i], c.momentum) : exp_avg[i];
  }
}

/// The momentum has the dtype of the gradient.
void momentum_in_bf16(const Exec& exec, const MuonMomentumOptions& options, const StepScalars& c,
                      Span<const float> grad, Span<float> exp_avg, Span<float> direction) {
  cuda::host::muon_momentum(exec, options, c, grad, exp_avg, direction);
  for (float& m : exp_avg) m = to_float(to_bf16(m));
}

// Newton-Schulz.

using NewtonSchulz = NewtonSchulzOptions;

void never_orthogonalised(const Exec&, const NewtonSchulz&, std::int64_t, std::int64_t,
                          Span<const float> matrix, Span<float> orthogonal) {
  std::ranges::copy(matrix, orthogonal.begin());
}

void one_step_fewer(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                    std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  NewtonSchulz fewer = options;
  --fewer.steps;
  cuda::host::newton_schulz(exec, fewer, rows, columns, matrix, orthogonal);
}

/// Every product with a coefficient and every sum is rounded.
void unfused(const Exec& exec, const NewtonSchulz& options, std::int64_t rows, std::int64_t columns,
             Span<const float> matrix, Span<float> orthogonal) {
  NewtonSchulz other = options;
  other.form = PolynomialForm::scaled_factor;
  cuda::host::newton_schulz(exec, other, rows, columns, matrix, orthogonal);
}

/// Two libraries name different polynomials polar_express.
void set_of_the_same_name(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                          std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  NewtonSchulz other = options;
  other.coefficients = NewtonSchulzSet::polar_express_dion;
  cuda::host::newton_schulz(exec, other, rows, columns, matrix, orthogonal);
}

/// eps of AdamW's size for norms, of a millionth of which gradients are.
void eps_dominates(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                   std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  NewtonSchulz other = options;
  other.floor = NormFloor::add;
  other.eps = 1e-3;
  cuda::host::newton_schulz(exec, other, rows, columns, matrix, orthogonal);
}

void rounded_before_norm(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                         std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  NewtonSchulz other = options;
  other.rounds_first = true;
  cuda::host::newton_schulz(exec, other, rows, columns, matrix, orthogonal);
}

std::vector<float> transposed(Span<const float> matrix, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(matrix.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      result[to_size(j * rows + i)] = matrix[to_size(i * columns + j)];
  return result;
}

/// The result of a tall matrix keeps the transposed order of its elements.
void not_transposed_back(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                         std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  if (rows <= columns)
    return cuda::host::newton_schulz(exec, options, rows, columns, matrix, orthogonal);
  const std::vector<float> wide = transposed(matrix, rows, columns);
  cuda::host::newton_schulz(exec, options, columns, rows, wide, orthogonal);
}

/// The update is clipped like a gradient, each matrix to a norm of 1.
void clipped(const Exec& exec, const NewtonSchulz& options, std::int64_t rows, std::int64_t columns,
             Span<const float> matrix, Span<float> orthogonal) {
  cuda::host::newton_schulz(exec, options, rows, columns, matrix, orthogonal);
  double squares = 0;
  for (const float x : orthogonal) squares += double{x} * x;
  const auto factor = static_cast<float>(1 / std::max(std::sqrt(squares), 1.0));
  for (float& x : orthogonal) x *= factor;
}

/// An iteration in the form fused, of any orientation and with any polynomials and norm.
class Iteration {
 public:
  Iteration(const Exec& exec, const NewtonSchulz& options, std::int64_t rows, std::int64_t columns)
      : exec_(exec), options_(options), rows_(rows), columns_(columns) {}

  double norm(Span<const float> matrix) const {
    NormLimbs limbs{};
    cuda::host::grad_norm_exact_accumulate(exec_, matrix, limbs);
    return std::max(cuda::host::grad_norm_finish(limbs), options_.eps);
  }

  void start(Span<const float> matrix, double divisor) {
    x_.assign(matrix.begin(), matrix.end());
    for (float& x : x_) x = rounded(static_cast<float>(double{x} / divisor));
  }

  void step(const QuinticPolynomial& p) {
    const auto a = static_cast<float>(p.a), b = static_cast<float>(p.b),
               c = static_cast<float>(p.c);
    std::vector<float> gram = product(x_, x_, rows_, columns_);
    for (float& value : gram) value = rounded(value);
    std::vector<float> mixed = product(gram, gram, rows_, rows_);
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      const float u = b * gram[i], v = c * mixed[i];
      mixed[i] = rounded(u + v);
    }
    const std::vector<float> moved =
        product(mixed, transposed(x_, rows_, columns_), columns_, rows_);
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const float w = a * x_[i];
      x_[i] = rounded(w + moved[i]);
    }
  }

  const std::vector<float>& result() const { return x_; }

 private:
  float rounded(float x) const {
    return options_.factors == MatrixFactors::bf16 ? to_float(to_bf16(x)) : x;
  }
  std::vector<float> product(const std::vector<float>& left, const std::vector<float>& right,
                             std::int64_t columns, std::int64_t inner) const {
    std::vector<float> result(to_size(rows_ * columns));
    cuda::host::matrix_product(exec_, options_.factors, rows_, columns, inner, left, right, result);
    return result;
  }

  const Exec& exec_;
  const NewtonSchulz& options_;
  std::int64_t rows_, columns_;
  std::vector<float> x_;
};

/// Runs body(iteration, matrix) for the matrix, or its transpose if it is tall, as R28 has it.
template <class Body>
void iterate(const Exec& exec, const NewtonSchulz& options, std::int64_t rows, std::int64_t columns,
             Span<const float> matrix, Span<float> orthogonal, const Body& body) {
  const bool tall = rows > columns;
  const std::vector<float> wide =
      tall ? transposed(matrix, rows, columns) : std::vector<float>(matrix.begin(), matrix.end());
  Iteration iteration(exec, options, std::min(rows, columns), std::max(rows, columns));
  body(iteration, Span<const float>(wide));
  if (tall)
    std::ranges::copy(transposed(iteration.result(), columns, rows), orthogonal.begin());
  else
    std::ranges::copy(iteration.result(), orthogonal.begin());
}

/// With fewer steps than polynomials the last ones are used.
void last_polynomials(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                      std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  iterate(exec, options, rows, columns, matrix, orthogonal, [&](Iteration& x, Span<const float> e) {
    const auto& set = newton_schulz_sets[static_cast<std::size_t>(options.coefficients)];
    const int first = std::max(0, static_cast<int>(set.polynomials.size()) - options.steps);
    x.start(e, x.norm(e));
    for (int k = 0; k < options.steps; ++k) x.step(polynomial_of(options.coefficients, first + k));
  });
}

/// With more steps than polynomials a set that repeats its last one starts again.
void polynomials_start_again(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                             std::int64_t columns, Span<const float> matrix,
                             Span<float> orthogonal) {
  iterate(exec, options, rows, columns, matrix, orthogonal, [&](Iteration& x, Span<const float> e) {
    const auto& set = newton_schulz_sets[static_cast<std::size_t>(options.coefficients)];
    x.start(e, x.norm(e));
    for (int k = 0; k < options.steps; ++k)
      x.step(set.polynomials[to_size(k) % set.polynomials.size()]);
  });
}

/// The norm is a bf16 number, as that of a bf16 tensor is.
void norm_in_bf16(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                  std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  iterate(exec, options, rows, columns, matrix, orthogonal, [&](Iteration& x, Span<const float> e) {
    x.start(e, to_float(to_bf16(static_cast<float>(x.norm(e)))));
    for (int k = 0; k < options.steps; ++k) x.step(polynomial_of(options.coefficients, k));
  });
}

/// A = X X^T of the long side: the same polynomial of the singular values, by other products.
void gram_of_long_side(const Exec& exec, const NewtonSchulz& options, std::int64_t rows,
                       std::int64_t columns, Span<const float> matrix, Span<float> orthogonal) {
  if (rows == columns)
    return cuda::host::newton_schulz(exec, options, rows, columns, matrix, orthogonal);
  const bool wide = rows < columns;
  const std::vector<float> tall =
      wide ? transposed(matrix, rows, columns) : std::vector<float>(matrix.begin(), matrix.end());
  Iteration iteration(exec, options, std::max(rows, columns), std::min(rows, columns));
  iteration.start(tall, iteration.norm(tall));
  for (int k = 0; k < options.steps; ++k) iteration.step(polynomial_of(options.coefficients, k));
  const std::vector<float>& result = iteration.result();
  std::ranges::copy(wide ? transposed(result, columns, rows) : result, orthogonal.begin());
}

// Partial folds of matrices that TP ranks share.

/// The folds are added in the order of the ranks, as an accumulator does.
void folds_in_rank_order(const Exec& exec, Span<const TreeNode> nodes,
                         Span<const float* const> folds, Span<float> product) {
  std::vector<cuda::host::GradStretch> operands;
  for (const float* const fold : folds) operands.push_back({fold, DType::fp32});
  cuda::host::fused_fold(exec, cuda::host::FoldPlan::one_after_another(nodes.size()), operands,
                         product, false);
}

/// Every rank rounds its fold before it is sent.
void folds_in_bf16(const Exec& exec, Span<const TreeNode> nodes, Span<const float* const> folds,
                   Span<float> product) {
  std::vector<std::vector<float>> rounded;
  std::vector<const float*> sent;
  for (const float* const fold : folds) {
    rounded.emplace_back(fold, fold + product.size());
    for (float& value : rounded.back()) value = to_float(to_bf16(value));
  }
  for (const std::vector<float>& fold : rounded) sent.push_back(fold.data());
  cuda::host::fold_products(exec, nodes, sent, product);
}

// Step size and update.

/// Matrices run with the rate of the constructor, whatever the configuration has.
float rate_of_constructor(const MuonSettings& settings, const StepScalars& c, std::int64_t rows,
                          std::int64_t columns) {
  StepScalars other = c;
  other.lr = static_cast<float>(OptimizerHyper{}.lr);
  return cuda::host::muon_step_size(settings, other, rows, columns);
}

/// Rows are taken for columns.
float scale_of_transposed(const MuonSettings& settings, const StepScalars& c, std::int64_t rows,
                          std::int64_t columns) {
  return cuda::host::muon_step_size(settings, c, columns, rows);
}

/// Rows and columns are padded to a multiple of 16, and the scale counts the padding.
float scale_of_padded(const MuonSettings& settings, const StepScalars& c, std::int64_t rows,
                      std::int64_t columns) {
  return cuda::host::muon_step_size(settings, c, (rows + 15) / 16 * 16, (columns + 15) / 16 * 16);
}

/// The decayed parameter is computed, and the one before it is used.
void decay_not_stored(const Exec& exec, const StepScalars& c, float step_size,
                      Span<const float> orthogonal, Span<float> master) {
  StepScalars other = c;
  other.has_decay = 0;
  cuda::host::muon_update(exec, other, step_size, orthogonal, master);
}

/// The decay has the rate of the update, with its scale.
void decay_by_scaled_rate(const Exec& exec, const StepScalars& c, float step_size,
                          Span<const float> orthogonal, Span<float> master) {
  StepScalars other = c;
  other.lr_weight_decay = step_size * c.weight_decay;
  cuda::host::muon_update(exec, other, step_size, orthogonal, master);
}

/// The decay reads the parameter after the update moved it.
void muon_decay_after_update(const Exec& exec, const StepScalars& c, float step_size,
                             Span<const float> orthogonal, Span<float> master) {
  decay_not_stored(exec, c, step_size, orthogonal, master);
  if (c.has_decay == 0) return;
  for (float& p : master) p = p - c.lr_weight_decay * p;
}

// Phases.

class WrongMuon : public HostStep {
 public:
  using HostStep::HostStep;

 protected:
  /// Calls body(piece) for pieces of updated matrices.
  template <class Body>
  void for_matrices(const Body& body) const {
    for (const Piece& piece : pieces_.blocks())
      if (matrices_.has(piece) && steps_.updated(piece)) body(piece);
  }
  /// Of the undistributed matrix.
  TensorMatrix shape_of(const Piece& piece) const {
    return (setup_.matrices.empty() ? matrices_of(*setup_.layout)
                                    : setup_.matrices)[to_size(piece.tensor)];
  }
  std::int64_t columns_of(const Piece& piece) const {
    return setup_.layout->tensors()[to_size(piece.tensor)].shape.back();
  }
};

/// Newton-Schulz of the rows that the rank owns, or of the part that a TP rank has.
class SliceOfRank : public WrongMuon {
  using WrongMuon::WrongMuon;
  virtual NewtonSchulz options_of(Span<const float> /*direction*/) {
    return setup_.hyper.muon.newton_schulz;
  }
  void prepare_update() override {
    move_momenta();
    std::vector<std::vector<float>> directions;
    for_matrices([&](const Piece& piece) {
      const Span<float> e = matrices_.elements(piece);
      directions.emplace_back(e.begin(), e.end());
    });
    matrices_.orthogonalise(steps_);
    auto direction = directions.begin();
    for_matrices([&](const Piece& piece) {
      const std::int64_t columns = columns_of(piece);
      ops_.newton_schulz({}, options_of(*direction), piece.numel / columns, columns, *direction,
                         matrices_.elements(piece));
      ++direction;
    });
  }
};

/// The norm is that of the whole matrix, and X X^T that of the part that a TP rank has.
class GramOfTpRank final : public SliceOfRank {
  using SliceOfRank::SliceOfRank;
  NewtonSchulz options_of(Span<const float> direction) override {
    NormLimbs squares{};
    cuda::host::grad_norm_exact_accumulate({}, direction, squares);
    cuda::host::grad_norm_normalise(squares);
    std::vector<std::uint64_t> words(sizeof(squares) / sizeof(std::uint64_t));
    std::memcpy(words.data(), &squares, sizeof(squares));
    setup_.tp->all_reduce(words, IntegerReduce::sum);
    std::memcpy(static_cast<void*>(&squares), words.data(), sizeof(squares));
    NewtonSchulz options = setup_.hyper.muon.newton_schulz;
    options.eps = std::max(options.eps, cuda::host::grad_norm_finish(squares));  // above the part's
    return options;
  }
};

/// The momentum moves before the step is known to overflow.
class MomentumBeforeCheck final : public WrongMuon {
  using WrongMuon::WrongMuon;
  void unscale() override {
    HostStep::unscale();
    if (skipped()) move_momenta();
  }
};

/// The momentum moves with the share of every micro-batch.
class OncePerMicroBatch final : public WrongMuon {
  using WrongMuon::WrongMuon;
  void prepare_update() override {
    const auto count = static_cast<float>(setup_.micro_batches);
    for_matrices([&](const Piece& piece) {
      for (float& g : part(grad_, piece)) g /= count;
    });
    for (std::int64_t i = 0; i < setup_.micro_batches; ++i) move_momenta();
    matrices_.orthogonalise(steps_);
  }
};

/// The owner map ends before the last matrix: its momentum is its update.
class LastMatrixWithoutOwner final : public WrongMuon {
  using WrongMuon::WrongMuon;
  void prepare_update() override {
    move_momenta();
    std::int64_t last = -1;
    for (std::size_t t = 0; t < setup_.matrix_tensors.size(); ++t)
      if (setup_.matrix_tensors[t].is_matrix) last = static_cast<std::int64_t>(t);
    std::vector<std::vector<float>> directions;
    for_matrices([&](const Piece& piece) {
      const Span<float> e = matrices_.elements(piece);
      if (piece.tensor == last) directions.emplace_back(e.begin(), e.end());
    });
    matrices_.orthogonalise(steps_);
    auto direction = directions.begin();
    for_matrices([&](const Piece& piece) {
      if (piece.tensor != last) return;
      std::ranges::copy(*direction++, matrices_.elements(piece).begin());
    });
  }
};

/// The results of the step before arrive, because the exchange of this step is not waited for.
class OrthogonalOfLastStep final : public WrongMuon {
  using WrongMuon::WrongMuon;
  void prepare_update() override {
    HostStep::prepare_update();
    std::vector<std::vector<float>> current;
    for_matrices([&](const Piece& piece) {
      const Span<float> o = matrices_.elements(piece);
      current.emplace_back(o.begin(), o.end());
    });
    std::size_t next = 0;
    if (!last_.empty())
      for_matrices([&](const Piece& piece) {
        std::ranges::copy(last_[next++], matrices_.elements(piece).begin());
      });
    last_ = std::move(current);
  }
  std::vector<std::vector<float>> last_;
};

/// The step size of a part is that of the whole matrix.
class ScaleOfWholeMatrix final : public WrongMuon {
  using WrongMuon::WrongMuon;
  void update_piece(const Exec& exec, const Piece& piece) override {
    if (!matrices_.has(piece)) return HostStep::update_piece(exec, piece);
    const StepScalars& c = steps_.scalars(piece);
    const TensorMatrix shape = shape_of(piece);
    ops_.muon_update(exec, c, ops_.muon_step_size(setup_.hyper.muon, c, shape.rows, shape.columns),
                     matrices_.elements(piece), state_of(piece).master);
  }
};

/// The step size comes from the rows that the rank owns.
class ScaleOfShard final : public WrongMuon {
  using WrongMuon::WrongMuon;
  void update_piece(const Exec& exec, const Piece& piece) override {
    if (!matrices_.has(piece)) return HostStep::update_piece(exec, piece);
    const StepScalars& c = steps_.scalars(piece);
    const std::int64_t columns = columns_of(piece);
    ops_.muon_update(exec, c,
                     ops_.muon_step_size(setup_.hyper.muon, c, piece.numel / columns, columns),
                     matrices_.elements(piece), state_of(piece).master);
  }
};

/// AdamW's second moment of a matrix moves too.
class SecondMomentMoves final : public WrongMuon {
  using WrongMuon::WrongMuon;
  void update_piece(const Exec& exec, const Piece& piece) override {
    HostStep::update_piece(exec, piece);
    if (!matrices_.has(piece)) return;
    const StepScalars& c = steps_.scalars(piece);
    const Span<const float> grad = part(grad_, piece);
    const Span<float> exp_avg_sq = state_.part(StateSlot::exp_avg_sq, piece);
    for (std::size_t i = 0; i < grad.size(); ++i)
      exp_avg_sq[i] = c.beta2 * exp_avg_sq[i] + c.one_minus_beta2 * (grad[i] * grad[i]);
  }
};

/// The norm of the optimizer of matrices counts its own tensors only.
class NormOfMatrices final : public WrongMuon {
  using WrongMuon::WrongMuon;
  void norm() override {
    pieces_.sum_joined<cuda::GlobalNorm::Parts>(
        setup_.exec, [&](const Piece& a, const Piece& b) { return a.tensor == b.tensor; },
        [&](const Exec& exec, const Piece& piece, cuda::GlobalNorm::Parts& norms) {
          if (!counted(piece) || !matrices_.has(piece)) return;
          global_norm_.add(ops_, exec, part(grad_, piece), norms.of(clip_group(piece)));
        },
        [&](cuda::GlobalNorm::Parts& norms) { global_norm_.add(norms); });
    global_norm_.finish(setup_.stage > 0 ? setup_.comm : nullptr, setup_.tp, grad_norm_);
  }
};

}  // namespace

bool put_wrong_muon(std::string_view fault, cuda::KernelTable& ops) {
  if (fault == "muon-momentum-of-documentation") {
    ops.muon_momentum = momentum_of_documentation;
  } else if (fault == "muon-without-nesterov") {
    ops.muon_momentum = without_nesterov;
  } else if (fault == "muon-maximize-ignored") {
    ops.muon_momentum = maximize_ignored;
  } else if (fault == "muon-nesterov-of-old-momentum") {
    ops.muon_momentum = nesterov_of_old_momentum;
  } else if (fault == "muon-momentum-by-lerp") {
    ops.muon_momentum = momentum_by_lerp;
  } else if (fault == "muon-momentum-in-bf16") {
    ops.muon_momentum = momentum_in_bf16;
  } else if (fault == "muon-never-orthogonalised") {
    ops.newton_schulz = never_orthogonalised;
  } else if (fault == "muon-one-step-fewer") {
    ops.newton_schulz = one_step_fewer;
  } else if (fault == "muon-rounds-every-operation") {
    ops.newton_schulz = unfused;
  } else if (fault == "muon-set-of-the-same-name") {
    ops.newton_schulz = set_of_the_same_name;
  } else if (fault == "muon-last-polynomials") {
    ops.newton_schulz = last_polynomials;
  } else if (fault == "muon-polynomials-start-again") {
    ops.newton_schulz = polynomials_start_again;
  } else if (fault == "muon-eps-dominates") {
    ops.newton_schulz = eps_dominates;
  } else if (fault == "muon-norm-in-bf16") {
    ops.newton_schulz = norm_in_bf16;
  } else if (fault == "muon-rounded-before-norm") {
    ops.newton_schulz = rounded_before_norm;
  } else if (fault == "muon-gram-of-long-side") {
    ops.newton_schulz = gram_of_long_side;
  } else if (fault == "muon-not-transposed-back") {
    ops.newton_schulz = not_transposed_back;
  } else if (fault == "muon-orthogonal-clipped") {
    ops.newton_schulz = clipped;
  } else if (fault == "muon-folds-in-rank-order") {
    ops.fold_products = folds_in_rank_order;
  } else if (fault == "muon-folds-in-bf16") {
    ops.fold_products = folds_in_bf16;
  } else if (fault == "muon-rate-of-constructor") {
    ops.muon_step_size = rate_of_constructor;
  } else if (fault == "muon-scale-of-transposed") {
    ops.muon_step_size = scale_of_transposed;
  } else if (fault == "muon-scale-of-padded-shape") {
    ops.muon_step_size = scale_of_padded;
  } else if (fault == "muon-decay-not-stored") {
    ops.muon_update = decay_not_stored;
  } else if (fault == "muon-decay-by-scaled-rate") {
    ops.muon_update = decay_by_scaled_rate;
  } else if (fault == "muon-decay-after-update") {
    ops.muon_update = muon_decay_after_update;
  } else {
    return false;
  }
  return true;
}

cuda::MakeLocalStep wrong_matrices(std::string_view fault, const FaultContext& context) {
  if (fault == "muon-slice-of-shard" || fault == "muon-block-of-tp-rank")
    return step_of<SliceOfRank>(context);
  if (fault == "muon-gram-of-tp-rank") return step_of<GramOfTpRank>(context);
  if (fault == "muon-momentum-before-check") return step_of<MomentumBeforeCheck>(context);
  if (fault == "muon-once-per-micro-batch") return step_of<OncePerMicroBatch>(context);
  if (fault == "muon-last-matrix-without-owner") return step_of<LastMatrixWithoutOwner>(context);
  if (fault == "muon-orthogonal-of-last-step") return step_of<OrthogonalOfLastStep>(context);
  if (fault == "muon-scale-of-whole-matrix") return step_of<ScaleOfWholeMatrix>(context);
  if (fault == "muon-scale-of-shard") return step_of<ScaleOfShard>(context);
  if (fault == "muon-second-moment-moves") return step_of<SecondMomentMoves>(context);
  if (fault == "muon-norm-of-matrices") return step_of<NormOfMatrices>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
