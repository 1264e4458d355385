// Matrix products (R27) and Muon (R28) of the host implementation, against the loops of simple_muon.hpp.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/update/simple_muon.hpp"
#include "tests/support/values.hpp"

namespace host_muon_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

constexpr MatrixFactors both_factors[] = {MatrixFactors::bf16, MatrixFactors::fp32};

/// Every instruction set, with 1 to 4 threads.
std::vector<Exec> execs() {
  std::vector<Exec> all = every_exec();
  for (const int threads : {2, 4}) all.push_back({threads, Isa::best});
  return all;
}

bool rounds(MatrixFactors factors) { return factors == MatrixFactors::bf16; }

/// Values of which some are zeros of both signs, subnormal or at the ends of fp32: products underflow and overflow.
Values special_values(std::int64_t numel, std::uint64_t seed, bool nonfinite) {
  constexpr float most = std::numeric_limits<float>::max();
  constexpr float finite[] = {0,         -0.0F, 0x1p-149F, -0x1p-126F, 0x1.8p-75F,
                              -0x1p-74F, most,  -most,     0x1.01p0F,  1};
  // NaNs of every kind: rounding the upper half of these bits would make infinities and zeros of two of them.
  const float others[] = {inf32, -inf32, nan32, std::bit_cast<float>(0x7F800001U),
                          std::bit_cast<float>(0xFFFFFFFFU)};
  Values values = random_values(numel, seed);
  const Philox random(seed + 1000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (random.below(3 * i, 3) == 0) values[i] = finite[random.below(3 * i + 1, std::size(finite))];
    if (nonfinite && random.below(3 * i + 2, 40) == 0)
      values[i] = others[random.below(3 * i + 1, std::size(others))];
  }
  return values;
}

void check_product(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Values& x,
                   const Values& y) {
  for (const MatrixFactors factors : both_factors) {
    const auto want = bits(simple_product(rounds(factors), rows, columns, inner, x, y));
    for (const Exec& exec : execs()) {
      CAPTURE(host::name(exec.isa));
      CAPTURE(exec.num_threads);
      Values product(want.size(), 7);
      host::matrix_product(exec, factors, rows, columns, inner, x, y, product);
      CHECK(bits(product) == want);
    }
  }
}

void check_newton_schulz(const NewtonSchulzOptions& options, std::int64_t rows,
                         std::int64_t columns, const Values& e) {
  const auto want = bits(simple_newton_schulz(options, rows, columns, e));
  for (const Exec& exec : execs()) {
    CAPTURE(host::name(exec.isa));
    CAPTURE(exec.num_threads);
    Values result(e.size(), 7), in_place = e;
    host::newton_schulz(exec, options, rows, columns, e, result);
    CHECK(bits(result) == want);
    host::newton_schulz(exec, options, rows, columns, in_place, in_place);
    CHECK(bits(in_place) == want);
  }
}

}  // namespace

TEST_CASE("matrix_product: odd extents, every instruction set and number of threads") {
  for (const std::int64_t rows : {0, 1, 7, 8, 9, 17, 33, 129}) {
    for (const std::int64_t columns : {0, 1, 7, 8, 9, 17, 33, 129}) {
      for (const std::int64_t inner : {0, 1, 7, 8, 9, 17, 33, 129}) {
        if (rows + columns + inner > 200 && inner != 17) continue;
        CAPTURE(rows);
        CAPTURE(columns);
        CAPTURE(inner);
        check_product(rows, columns, inner, random_values(rows * inner, 1),
                      random_values(columns * inner, 2));
      }
    }
  }
}

TEST_CASE("matrix_product: chains longer than a run of terms") {
  for (const std::int64_t inner : {2047, 2048, 2049, 4200, 8 * 513 + 3}) {
    CAPTURE(inner);
    check_product(15, 35, inner, random_values(15 * inner, 3), random_values(35 * inner, 4));
  }
}

TEST_CASE("matrix_product: subnormals, overflow, infinities and NaN") {
  for (const bool nonfinite : {false, true}) {
    for (std::uint64_t seed = 10; seed < 16; ++seed) {
      check_product(19, 37, 41, special_values(19 * 41, seed, nonfinite),
                    special_values(37 * 41, seed + 100, nonfinite));
    }
  }
}

TEST_CASE("matrix_product: two terms in one instruction have a rounding each") {
  // No element is smaller than 2^-56. Its neighbour below is in the second half.
  constexpr float most = 0x1.FEp127F;
  for (const float smallest : {0x1p-56F, 0x1.FEp-57F}) {
    for (const bool nonfinite : {false, true}) {
      const float chosen[] = {0,           -0.0F,        smallest,  -smallest,
                              0x1.02p-56F, -0x1.FEp-56F, 0x1.02p0F, 0x1.FEp63F,
                              0x1p64F,     -0x1.FEp64F,  most,      -most,
                              inf32,       -inf32,       nan32,     0x1.FFFFFEp-56F};
      const Philox random(nonfinite ? 60 : 61);
      const auto drawn = [&](std::int64_t numel, std::uint64_t stream) {
        Values values = random_values(numel, stream, 12);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::uint64_t kind = random.below(2 * i + stream * 100003, 4);
          if (kind == 0) values[i] = chosen[random.below(2 * i + 1 + stream * 100003, 10)];
          if (nonfinite && random.below(2 * i + 7 + stream * 300007, 50) == 0)
            values[i] = chosen[10 + random.below(i + stream * 500009, 6)];
        }
        return values;
      };
      for (const std::int64_t inner : {2, 8, 15, 16, 17, 41, 129, 1041}) {
        CAPTURE(smallest);
        CAPTURE(nonfinite);
        CAPTURE(inner);
        check_product(19, 37, inner, drawn(19 * inner, 62), drawn(37 * inner, 63));
      }
    }
  }
  // Products beyond fp32 that a sum brings back, in both places of a pair, and sums that leave fp32. The last row times
  // the last columns is 2^-14 s^2: 2^-126, and for the s that is too small 2^-128.
  Values left, right;
  const auto append = [](Values& to, std::initializer_list<float> terms) {
    to.insert(to.end(), terms);
    to.resize((to.size() + 31) / 32 * 32);  // blocks of 4 terms
  };
  for (const float a : {1.0F, 0x1p100F, -0x1p100F, 0x1.FEp100F}) {
    for (const float b : {1.0F, 0x1p100F, -0x1p100F, 0x1.02p100F}) {
      for (const float c : {0.0F, -0x1p100F, 0x1p100F}) append(left, {c, a, b, -a});
    }
  }
  for (const float a : {0x1p27F, -0x1p27F, 0x1p28F, 0x1.02p27F}) {
    for (const float b : {0x1p27F, -0x1p28F, 0x1.FEp27F}) append(right, {a, b, a, b});
  }
  check_product(numel(Span<float>(left)) / 32, numel(Span<float>(right)) / 32, 32, left, right);
  for (const float s : {0x1p-56F, 0x1p-57F}) {
    append(left, {129 * 0x1p-7F * s, -65 * 0x1p-6F * s});
    append(right, {129 * 0x1p-7F * s, s});
    check_product(numel(Span<float>(left)) / 32, numel(Span<float>(right)) / 32, 32, left, right);
  }
}

TEST_CASE("matrix_product: fma of adversarial and random triples is rounded once") {
  // Row i times column j is fma(a_i, b_j, c_i): the other 14 terms are zeros. Products of two of these factors are a
  // power of two and 2^-46, 2^-42 or about 3/4 of 2^-28 of it, so fp64 rounds c + a b to the middle of two fp32 values,
  // or to the place next to it.
  constexpr float near_one[] = {1,
                                8384513 * 0x1p-23F,
                                8392705 * 0x1p-23F,
                                8388607 * 0x1p-23F,
                                8388609 * 0x1p-23F,
                                2095105 * 0x1p-21F,
                                2099201 * 0x1p-21F,
                                8391477 * 0x1p-23F,
                                8385740 * 0x1p-23F,
                                8389008 * 0x1p-23F,
                                8388208 * 0x1p-23F};
  constexpr float most = std::numeric_limits<float>::max();
  Values c = {0,         -0.0F, 1,         1 + 0x1p-23F,          1.5F,      2 - 0x1p-23F,
              most,      -most, 0x1p-126F, 0x1p-126F - 0x1p-149F, 0x1p-149F, -0x3p-149F,
              0x1p-125F, inf32, nan32};
  for (const float value : random_values(10, 40)) c.push_back(value);
  Values left, right;
  const auto append = [](Values& to, float first, float second) {
    to.insert(to.end(), {first, second});
    to.resize(to.size() + 14);
  };
  for (const float addend : c) {
    // Half of the unit in the last place, times 2^40.
    const int unit =
        addend == 0 || !std::isfinite(addend) ? -149 : std::max(std::ilogb(addend) - 23, -149);
    for (const float factor : near_one) {
      for (const float sign : {1.0F, -1.0F})
        append(left, addend, sign * std::ldexp(factor, unit + 39));
    }
  }
  Values b = {0, -0.0F, most, 0x1p-149F, -0x1p-100F, inf32, -inf32, nan32};
  for (const float factor : near_one) {
    for (const float multiple : {1.0F, -1.0F, 2.0F, 3.0F})
      b.push_back(multiple * factor * 0x1p-40F);
  }
  for (const float factor : b) append(right, 1, factor);
  check_product(numel(Span<float>(left)) / 16, numel(Span<float>(right)) / 16, 16, left, right);

  for (const int spread : {1, 12, 70}) {
    Values rows, columns;
    const Values values = random_values(3 * 200, 41, spread);
    for (std::size_t i = 0; i < 600; i += 3) {
      append(rows, values[i], values[i + 1]);
      append(columns, 1, values[i + 2]);
    }
    check_product(200, 200, 16, rows, columns);
  }
}

TEST_CASE("matrix_product: operands and results at any address, and nothing else is written") {
  constexpr std::int64_t rows = 15, columns = 33, inner = 19;
  const Values x = random_values(rows * inner, 50), y = random_values(columns * inner, 51);
  const auto want = bits(simple_product(true, rows, columns, inner, x, y));
  for (const Exec& exec : execs()) {
    for (std::size_t offset = 0; offset < 17; ++offset) {
      const auto moved = [&](const Values& values) {
        Values all(values.size() + 40, nan32);
        std::ranges::copy(values, all.begin() + static_cast<std::ptrdiff_t>(offset));
        return all;
      };
      const Values far_x = moved(x), far_y = moved(y);
      Values product(want.size() + 40, 7);
      host::matrix_product(exec, MatrixFactors::bf16, rows, columns, inner,
                           Span<const float>(far_x).subspan(offset, x.size()),
                           Span<const float>(far_y).subspan(offset, y.size()),
                           Span<float>(product).subspan(16 - offset, want.size()));
      std::vector<std::uint32_t> all(product.size(), bits(7.0F));
      std::ranges::copy(want, all.begin() + static_cast<std::ptrdiff_t>(16 - offset));
      CHECK(bits(product) == all);
    }
  }
}

TEST_CASE("matrix_product: a matrix and its own transpose") {
  for (const std::int64_t rows : {1, 7, 14, 15, 33, 97, 131}) {
    for (const std::int64_t inner : {1, 9, 130}) {
      const Values x = random_values(rows * inner, 5);
      for (const MatrixFactors factors : both_factors) {
        const auto want = bits(simple_product(rounds(factors), rows, rows, inner, x, x));
        for (const Exec& exec : execs()) {
          Values product(want.size(), 7);
          host::matrix_product(exec, factors, rows, rows, inner, x, x, product);
          CHECK(bits(product) == want);
        }
      }
    }
  }
}

TEST_CASE("newton_schulz: every set, form, factor, floor and order of rounding") {
  for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {
    for (const PolynomialForm form :
         {PolynomialForm::fused, PolynomialForm::scaled_factor, PolynomialForm::scaled_product}) {
      for (const MatrixFactors factors : both_factors) {
        for (const NormFloor floor : {NormFloor::clamp, NormFloor::add}) {
          for (const bool rounds_first : {false, true}) {
            const NewtonSchulzOptions options{set.set, 2, form, factors, floor, 1e-3, rounds_first};
            CAPTURE(set.name);
            check_newton_schulz(options, 9, 13, random_values(9 * 13, 6));
          }
        }
      }
    }
  }
}

TEST_CASE("newton_schulz: extents and numbers of steps") {
  for (const auto& [rows, columns] : {std::pair<int, int>{0, 5},
                                      {5, 0},
                                      {0, 0},
                                      {1, 1},
                                      {1, 9},
                                      {9, 1},
                                      {7, 8},
                                      {8, 7},
                                      {17, 33},
                                      {33, 17},
                                      {33, 129},
                                      {129, 33},
                                      {100, 100}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    for (const MatrixFactors factors : both_factors) {
      NewtonSchulzOptions options;
      options.factors = factors;
      options.steps = 3;
      check_newton_schulz(options, rows, columns, random_values(rows * columns, 7));
      options.form = PolynomialForm::scaled_factor;
      check_newton_schulz(options, rows, columns, random_values(rows * columns, 8));
    }
  }
  for (const NewtonSchulzSetTraits& set : newton_schulz_sets) {  // more steps than polynomials
    NewtonSchulzOptions options;
    options.coefficients = set.set;
    options.steps = 12;
    check_newton_schulz(options, 5, 6, random_values(30, 9));
  }
}

TEST_CASE("newton_schulz: zeros, tiny and huge values, infinities and NaN") {
  for (const MatrixFactors factors : both_factors) {
    for (const bool add : {false, true}) {
      NewtonSchulzOptions options;
      options.factors = factors;
      options.floor = add ? NormFloor::add : NormFloor::clamp;
      options.eps = 0x1p-126;
      Values zeros(20);
      zeros[3] = zeros[7] = -0.0F;
      check_newton_schulz(options, 4, 5, zeros);
      Values result(20, 7);
      host::newton_schulz({}, options, 4, 5, zeros, result);
      CHECK(bits(result) == bits(Values(20)));
      check_newton_schulz(options, 5, 4, Values(20, 0x1p-149F));
      check_newton_schulz(options, 5, 4, Values(20, std::numeric_limits<float>::max()));
      check_newton_schulz(options, 5, 6, special_values(30, 20, false));
      for (const float bad : {inf32, -inf32, nan32}) {
        for (const auto& [rows, columns] : {std::pair{4, 5}, std::pair{5, 4}, std::pair{1, 20}}) {
          Values e = random_values(20, 21);
          e[11] = bad;
          check_newton_schulz(options, rows, columns, e);
          host::newton_schulz({}, options, rows, columns, e, result);
          CHECK(bits(result) == bits(Values(20, nan32)));
        }
      }
    }
  }
}

TEST_CASE("muon_momentum and muon_update: every option, also in place") {
  StepScalars c{};
  c.momentum = 0.95F;
  c.one_minus_dampening = static_cast<float>(1 - 0.95);
  c.lr_weight_decay = 0.013F;
  for (const std::int64_t numel : {0, 1, 7, 8, 15, 16, 17, 33, 1025, 2 * 16384 + 37}) {
    Values grad = special_values(numel, 30, true), exp_avg = special_values(numel, 31, true);
    for (const bool nesterov : {false, true}) {
      for (const bool maximize : {false, true}) {
        Values want_m, want_e;
        for (std::size_t i = 0; i < grad.size(); ++i) {
          const float g = maximize ? -grad[i] : grad[i];
          const float x = c.momentum * exp_avg[i], y = c.one_minus_dampening * g;
          const float m = x + y, h = c.momentum * m;
          want_m.push_back(m);
          want_e.push_back(nesterov ? y + h : m);
        }
        for (const Exec& exec : execs()) {
          Values m = exp_avg, e(grad.size()), in_place = grad;
          host::muon_momentum(exec, {nesterov, maximize}, c, grad, m, e);
          CHECK(bits(m) == bits(want_m));
          CHECK(bits(e) == bits(want_e));
          m = exp_avg;
          host::muon_momentum(exec, {nesterov, maximize}, c, in_place, m, in_place);
          CHECK(bits(m) == bits(want_m));
          CHECK(bits(in_place) == bits(want_e));
        }
      }
    }
    for (const std::uint32_t decay : {0U, 1U}) {
      c.has_decay = decay;
      Values want;
      for (std::size_t i = 0; i < grad.size(); ++i) {
        const float a = 0.03F * grad[i], w = c.lr_weight_decay * exp_avg[i];
        const float u = decay != 0 ? a + w : a;
        want.push_back(exp_avg[i] - u);
      }
      for (const Exec& exec : execs()) {
        Values master = exp_avg;
        host::muon_update(exec, c, 0.03F, grad, master);
        CHECK(bits(master) == bits(want));
      }
    }
  }
}

TEST_CASE("muon_step_size: every scale, by hand") {
  StepScalars c{};
  c.lr = 0.02F;
  const auto size = [&](MuonScale scale, double factor, std::int64_t rows, std::int64_t columns) {
    MuonSettings settings;
    settings.scale = scale;
    settings.scale_factor = factor;
    return host::muon_step_size(settings, c, rows, columns);
  };
  const auto lr = static_cast<double>(c.lr);
  CHECK(size(MuonScale::none, 1, 3, 5) == c.lr);
  CHECK(size(MuonScale::none, 0.5, 3, 5) == 0.01F);
  CHECK(size(MuonScale::original, 1, 16, 4) == 0.04F);
  CHECK(size(MuonScale::original, 1, 4, 16) == c.lr);
  CHECK(size(MuonScale::original, 1, 7, 3) == static_cast<float>(lr * std::sqrt(7.0 / 3.0)));
  CHECK(size(MuonScale::spectral, 1, 4, 16) == 0.08F);
  CHECK(size(MuonScale::spectral, 1, 16, 4) == 0.08F);
  CHECK(size(MuonScale::match_rms_adamw, 1, 3, 7) ==
        static_cast<float>(lr * (0.2 * std::sqrt(7.0))));
  CHECK(size(MuonScale::match_rms_adamw, 3, 7, 3) ==
        static_cast<float>(lr * (3 * (0.2 * std::sqrt(7.0)))));
  c.lr = 0x1.d03166p-4F;  // another fp32 value with the root of 0.04 * 49
  CHECK(size(MuonScale::match_rms_adamw, 1, 49, 49) ==
        static_cast<float>(static_cast<double>(c.lr) * (0.2 * 7.0)));
  c.lr = 0x1.400028p-3F;  // another one with (lr * 1.7) * 3
  CHECK(size(MuonScale::spectral, 1.7, 9, 9) ==
        static_cast<float>(static_cast<double>(c.lr) * (1.7 * 3.0)));
  c.lr = 0.02F;
  CHECK(size(MuonScale::unit_rms_norm, 1, 4, 16) == 0.01F);
  CHECK(size(MuonScale::unit_rms_norm, 1, 16, 4) == 0.04F);
}

TEST_CASE("Muon operations: refused extents, views and options") {
  using enum ErrorCode;
  Values six(6), four(4);
  const auto product = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner) {
    return [=, &six, &four] {
      host::matrix_product({}, MatrixFactors::bf16, rows, columns, inner, six, six, four);
    };
  };
  CHECK_NOTHROW(product(2, 2, 3)());
  expect_error(invalid_argument, product(-2, 2, 3), "rows is -2");
  expect_error(invalid_argument, product(2, -2, 3), "columns is -2");
  expect_error(invalid_argument, product(2, 2, -3), "inner is -3");
  expect_error(invalid_argument, product(3, 2, 3), "left has 6 elements");
  expect_error(invalid_argument, product(2, 3, 3), "right has 6 elements");
  expect_error(invalid_argument, product(3, 3, 2), "product has 4 elements");
  // Products of extents that no integer holds.
  const std::int64_t far = std::int64_t{1} << 32;
  Values none;
  CHECK_NOTHROW(
      host::matrix_product({}, MatrixFactors::bf16, 0, far * (far / 4), 0, none, none, none));
  expect_error(
      invalid_argument,
      [&] { host::matrix_product({}, MatrixFactors::bf16, far, far, 0, none, none, none); },
      "product has 0 elements");
  expect_error(
      invalid_argument, [&] { host::newton_schulz({}, {}, far, far, none, none); }, "0 elements");
  const auto iterate = [&](int steps, double eps, std::int64_t rows, std::int64_t columns) {
    return [=, &six] {
      NewtonSchulzOptions options;
      options.steps = steps;
      options.eps = eps;
      host::newton_schulz({}, options, rows, columns, six, six);
    };
  };
  CHECK_NOTHROW(iterate(1, 0x1p-126, 2, 3)());
  CHECK_NOTHROW(iterate(64, 1, 2, 3)());
  expect_error(invalid_argument, iterate(0, 1e-7, 2, 3), "steps is 0");
  expect_error(invalid_argument, iterate(65, 1e-7, 2, 3), "steps is 65");
  expect_error(invalid_argument, iterate(5, 0x1p-127, 2, 3), "eps is 5.8");
  expect_error(invalid_argument, iterate(5, inf64, 2, 3), "eps is inf");
  expect_error(invalid_argument, iterate(5, nan64, 2, 3), "eps is ");
  expect_error(invalid_argument, iterate(5, 1e-7, -2, -3), "-2 rows");
  expect_error(invalid_argument, iterate(5, 1e-7, 2, 2), "6 elements");
  expect_error(
      invalid_argument, [&] { host::newton_schulz({}, {}, 2, 3, six, four); }, "4");
  const StepScalars c{};
  expect_error(
      invalid_argument, [&] { host::muon_momentum({}, {}, c, six, four, six); }, "exp_avg");
  expect_error(
      invalid_argument, [&] { host::muon_momentum({}, {}, c, six, six, four); }, "direction");
  expect_error(
      invalid_argument, [&] { host::muon_update({}, c, 1, six, four); }, "master");
  for (const double factor : {0.0, -1.0, inf64, nan64}) {
    MuonSettings settings;
    settings.scale_factor = factor;
    expect_error(
        invalid_argument, [&] { host::muon_step_size(settings, c, 2, 3); }, "scale_factor");
  }
  expect_error(
      invalid_argument, [&] { host::muon_step_size({}, c, 0, 3); }, "0 rows");
  expect_error(
      invalid_argument, [&] { host::muon_step_size({}, c, 3, 0); }, "0 columns");
}

}  // namespace host_muon_test
