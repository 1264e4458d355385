// Matrix products and the operations of Muon on a device against the reference.
// tests/cuda/device/sim runs the same file on the simulated device.

#include <doctest.h>

#include <array>
#include <limits>
#include <vector>

#include "cuda/device/kernels/update/newton_schulz.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "tests/cuda/optimizer/muon_truth.hpp"
#include "verification/ops/on_device.hpp"

namespace device_muon_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
using namespace zeroproof::tests;
using verification::on_device;
namespace device = zeroproof::cuda::device;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// No two equal, so that none can replace another.
StepScalars scalars(std::uint32_t has_decay) {
  StepScalars s{};
  s.step_size = 1.1e-3F;
  s.lr_weight_decay = 1e-5F;
  s.weight_decay = 0.02F;
  s.lr = 3e-3F;
  s.momentum = 0.85F;
  s.one_minus_dampening = 0.7F;
  s.has_decay = has_decay;
  return s;
}

/// Values of one size with signs.
void fill_even(Span<float> values, std::uint64_t stream) {
  for (std::uint64_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<float>(hash(i, stream) >> 8) - 0x1p23F) * 0x1p-23F;
}

using Fill = void(Span<float>, std::uint64_t);
constexpr std::array<Fill*, 3> fills = {fill_even, fill_finite, fill};

void check_product(MatrixFactors factors, std::int64_t rows, std::int64_t columns,
                   std::int64_t inner, Fill* fill_with) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(inner);
  Place<float> left(rows * inner, 1), right(columns * inner, 2), product(rows * columns, 3);
  fill_with(left.span(), 1);
  fill_with(right.span(), 2);
  on_device<device::matrix_product>(exec, factors, rows, columns, inner, left.span(), right.span(),
                                    product.span());
  const Values x(left.span().begin(), left.span().end()),
      y(right.span().begin(), right.span().end());
  const Values expected =
      simple_product(factors == MatrixFactors::bf16, rows, columns, inner, x, y);
  product.check([&](std::int64_t e) { return expected[e]; });
  Place<float> square(rows * rows, 2);
  on_device<device::matrix_product>(exec, factors, rows, rows, inner, left.span(), left.span(),
                                    square.span());
  const Values of_square = simple_product(factors == MatrixFactors::bf16, rows, rows, inner, x, x);
  square.check([&](std::int64_t e) { return of_square[e]; });
}

struct Extents {
  std::int64_t rows, columns;
};

void check_newton_schulz(const NewtonSchulzOptions& options, Extents extents, Fill* fill_with,
                         float scale = 1) {
  const auto [rows, columns] = extents;
  CAPTURE(rows);
  CAPTURE(columns);
  Place<float> matrix(rows * columns, 1), orthogonal(rows * columns, 2);
  fill_with(matrix.span(), 5);
  for (float& x : matrix.span()) x *= scale;
  const Values o = simple_newton_schulz(options, rows, columns,
                                        Values(matrix.span().begin(), matrix.span().end()));
  const auto expected = [&](std::int64_t e) { return o[e]; };
  on_device<device::newton_schulz>(exec, options, rows, columns, matrix.span(), orthogonal.span());
  orthogonal.check(expected);
  on_device<device::newton_schulz>(exec, options, rows, columns, matrix.span(), matrix.span());
  matrix.check(expected);
}

constexpr PolynomialForm forms[] = {PolynomialForm::fused, PolynomialForm::scaled_factor,
                                    PolynomialForm::scaled_product};

}  // namespace

TEST_CASE("device: matrix_product adds the terms of 8 blocks, each with one rounding") {
  if (!usable()) return;
  for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
    for (Fill* const fill_with : fills) {
      for (const std::int64_t inner : {0, 1, 7, 8, 9, 16, 17, 31, 130}) {
        check_product(factors, 3, 5, inner, fill_with);
        check_product(factors, 67, 65, inner, fill_with);
      }
      check_product(factors, 0, 3, 4, fill_with);
      check_product(factors, 1, 200, 65, fill_with);
      check_product(factors, 130, 1, 33, fill_with);
    }
  }
}

TEST_CASE("device: newton_schulz rounds as R28 in every form, with both factors") {
  if (!usable()) return;
  for (const PolynomialForm form : forms) {
    for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
      for (const bool rounds_first : {false, true}) {
        const NewtonSchulzOptions options{
            .form = form, .factors = factors, .rounds_first = rounds_first};
        for (const Extents& extents :
             {Extents{1, 1}, {1, 9}, {9, 1}, {3, 5}, {5, 3}, {24, 24}, {66, 20}, {20, 66}})
          check_newton_schulz(options, extents, fill_even);
      }
    }
  }
  check_newton_schulz({}, {70, 80}, fill_even);
  check_newton_schulz({}, {80, 70}, fill_finite);
}

TEST_CASE("device: newton_schulz takes the polynomials of its set, and repeats as the set does") {
  if (!usable()) return;
  for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {
    CAPTURE(set.name);
    for (const int steps : {1, 3, 12})
      check_newton_schulz({.coefficients = set.set, .steps = steps}, {7, 11}, fill_even);
  }
}

TEST_CASE("device: newton_schulz of a small, empty, zero or infinite matrix") {
  if (!usable()) return;
  for (const NormFloor floor : {NormFloor::clamp, NormFloor::add}) {
    for (const double eps : {0x1p-126, 1e-7, 0.5}) {
      for (const float scale : {0.0F, 0x1p-149F, 1e-8F, 1e-3F})
        check_newton_schulz({.floor = floor, .eps = eps}, {6, 4}, fill_even, scale);
    }
    for (const float bad : {inf, no_number}) {
      std::vector<float> matrix(12, 1.0F), orthogonal(12);
      matrix[7] = bad;
      on_device<device::newton_schulz>(exec, {.floor = floor}, 3, 4, matrix, orthogonal);
      for (const float x : orthogonal) CHECK(std::isnan(x));
    }
  }
  std::vector<float> none;
  CHECK_NOTHROW(device::newton_schulz(exec, {}, 0, 7, none, none));
  CHECK_NOTHROW(device::newton_schulz(exec, {}, 7, 0, none, none));
}

TEST_CASE("device: enqueue_newton_schulz in place changes nothing in an ended step") {
  if (!usable()) return;
  constexpr std::int64_t rows = 9, columns = 5;
  std::vector<float> matrix(rows * columns);
  fill_even(matrix, 9);
  const Values o = simple_newton_schulz({}, rows, columns, matrix);
  const cuda::DeviceArray<float> whole(rows * columns);
  const cuda::DeviceArray<float> values(device::newton_schulz_numel(rows, columns));
  const cuda::DeviceArray<device::MatrixNorm> norm(1);
  const cuda::DeviceArray<std::uint32_t> ends(2);
  for (const std::uint32_t halt : {0U, 4U}) {
    for (const std::uint32_t skipped : {0U, 1U}) {
      const std::uint32_t words[2] = {halt, skipped};
      device::stage_to_device(whole.data(), matrix.data(), whole.num_bytes());
      device::stage_to_device(ends.data(), words, sizeof words);
      device::enqueue_newton_schulz({}, rows, columns, whole.data(), whole.data(),
                                    {values.data(), norm.data()}, {ends.data(), ends.data() + 1});
      std::vector<float> found(matrix.size());
      device::stage_to_host(found.data(), whole.data(), whole.num_bytes());
      device::wait_for_stream();
      for (std::size_t e = 0; e < found.size(); ++e) {
        const bool ended = halt != 0 || skipped != 0;
        CHECK(same(found[e], ended ? matrix[e] : o[e]));
      }
    }
  }
}

TEST_CASE("device: muon_momentum keeps exp_avg and gives the direction, also over the gradient") {
  if (!usable()) return;
  for (const bool nesterov : {false, true}) {
    for (const bool maximize : {false, true}) {
      const MuonMomentumOptions options{nesterov, maximize};
      for_each_layout([&](std::int64_t numel, const int* offset) {
        Place<float> grad(numel, offset[0]), exp_avg(numel, offset[1]), direction(numel, offset[2]);
        fill(grad.span(), 1);
        fill(exp_avg.span(), 2);
        Place<float> over = grad, again = exp_avg;
        std::vector<float> moved(exp_avg.span().begin(), exp_avg.span().end()), e(moved.size());
        reference::muon_momentum({}, options, scalars(1), grad.span(), moved, e);
        const auto expected = [](const std::vector<float>& values) {
          return [&values](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
        };
        on_device<device::muon_momentum>(exec, options, scalars(1), grad.span(), exp_avg.span(),
                                         direction.span());
        exp_avg.check(expected(moved));
        direction.check(expected(e));
        on_device<device::muon_momentum>(exec, options, scalars(1), over.span(), again.span(),
                                         over.span());
        again.check(expected(moved));
        over.check(expected(e));
      });
    }
  }
}

TEST_CASE("device: muon_update takes any step size, and decays only with a coefficient") {
  if (!usable()) return;
  for (const float step_size : {1e-3F, 0.0F, -0.0F, inf, no_number}) {
    for (const std::uint32_t has_decay : {0U, 1U}) {
      for_each_layout([&](std::int64_t numel, const int* offset) {
        Place<float> orthogonal(numel, offset[0]), master(numel, offset[1]);
        fill(orthogonal.span(), 1);
        fill(master.span(), 2);
        Place<float> expected = master;
        reference::muon_update({}, scalars(has_decay), step_size, orthogonal.span(),
                               expected.span());
        on_device<device::muon_update>(exec, scalars(has_decay), step_size, orthogonal.span(),
                                       master.span());
        master.check([&](std::int64_t i) { return expected[i]; });
      });
    }
  }
}

TEST_CASE("device: muon_step_size has the factor of the matrix, in fp64") {
  if (!usable()) return;
  for (const MuonScale scale : {MuonScale::none, MuonScale::original, MuonScale::spectral,
                                MuonScale::match_rms_adamw, MuonScale::unit_rms_norm}) {
    for (const Extents& extents : {Extents{1, 1}, {3, 7}, {7, 3}, {50257, 768}, {768, 50257}}) {
      const MuonSettings settings{.scale = scale, .scale_factor = 0.3};
      const float found =
          device::muon_step_size(settings, scalars(1), extents.rows, extents.columns);
      CHECK(same(found,
                 reference::muon_step_size(settings, scalars(1), extents.rows, extents.columns)));
    }
  }
}

TEST_CASE("device: operations of Muon refuse sizes and settings without a result") {
  if (!usable()) return;
  constexpr ErrorCode code = ErrorCode::invalid_argument;
  std::vector<float> six(6), four(4), none;
  for (const MatrixFactors factors : {MatrixFactors::bf16, MatrixFactors::fp32}) {
    const auto product = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner,
                             Span<const float> left, Span<const float> right, Span<float> out) {
      return [=] { device::matrix_product(exec, factors, rows, columns, inner, left, right, out); };
    };
    expect_error(code, product(2, 2, 2, six, four, four), "left has 6 elements");
    expect_error(code, product(2, 2, 3, six, four, four), "right has 4 elements");
    expect_error(code, product(2, 2, 3, six, six, six), "product has 6 elements");
    expect_error(code, product(-2, 2, -3, six, six, four), "-2 x -3");
    expect_error(code, product(0, 0, -1, none, none, none), "0 x -1");
  }
  const auto schulz = [&](const NewtonSchulzOptions& options, std::int64_t rows,
                          Span<const float> matrix, Span<float> orthogonal) {
    return [=] { device::newton_schulz(exec, options, rows, 2, matrix, orthogonal); };
  };
  expect_error(code, schulz({.steps = 0}, 3, six, six), "0 steps");
  expect_error(code, schulz({.steps = 65}, 3, six, six), "65 steps");
  for (const double eps :
       {0.0, -1.0, 0x1p-127, static_cast<double>(inf), std::numeric_limits<double>::quiet_NaN()})
    expect_error(code, schulz({.eps = eps}, 3, six, six), "eps");
  expect_error(code, schulz({}, 3, four, six), "matrix has 4");
  expect_error(code, schulz({}, 3, six, four), "orthogonal has 4");
  expect_error(code, schulz({.steps = 0}, 0, none, none), "0 steps");
  const auto coefficients = static_cast<NewtonSchulzSet>(7);
  expect_error(code, schulz({.coefficients = coefficients}, 3, six, six), "set 7");
  for (const double factor :
       {0.0, -1.0, static_cast<double>(inf), std::numeric_limits<double>::quiet_NaN()})
    expect_error(code, [&] { device::muon_step_size({.scale_factor = factor}, scalars(1), 2, 3); });
  expect_error(
      code, [&] { device::muon_step_size({}, scalars(1), 0, 3); }, "0 rows");
  expect_error(
      code, [&] { device::muon_step_size({}, scalars(1), 3, -1); }, "-1 columns");
  expect_error(code, [&] { device::muon_momentum(exec, {}, scalars(1), six, four, six); });
  expect_error(code, [&] { device::muon_momentum(exec, {}, scalars(1), six, six, four); });
  expect_error(code, [&] { device::muon_update(exec, scalars(1), 1.0F, six, four); });
}

}  // namespace device_muon_test
