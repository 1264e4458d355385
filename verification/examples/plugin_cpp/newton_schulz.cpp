// Newton-Schulz of a user: the lines of the contract's R27 and R28, each rounded once, in their order. IN_ORDER takes the
// norm in fp32 and adds the terms of a product one after another, KEPT stores A without rounding it: both are legal and
// have other bits. The other macros make it wrong.

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "zeroproof_plugin.h"

namespace {

struct Polynomial {
  double a, b, c;
};
struct Set {
  std::vector<Polynomial> polynomials;
  bool repeats_last;
};

/// By the number of `coefficients`.
const std::vector<Set> sets = {{{{3.4445, -4.7750, 2.0315}}, false},
                               {{{4.0848, -6.8946, 2.9270},
                                 {3.9505, -6.3029, 2.6377},
                                 {3.7418, -5.5913, 2.3037},
                                 {2.8769, -3.1427, 1.2046},
                                 {2.8366, -3.0525, 1.2012}},
                                false},
                               {{{8.2051, -22.9019, 16.4607},
                                 {4.0664, -2.8612, 0.5184},
                                 {3.9096, -2.8234, 0.5250},
                                 {3.2856, -2.4153, 0.4853},
                                 {2.2779, -1.6198, 0.3985},
                                 {1.8726, -1.2307, 0.3585},
                                 {1.8564, -1.2132, 0.3568},
                                 {1.8750, -1.2500, 0.3750}},
                                true},
                               {{{8.156554524902461, -22.48329292557795, 15.878769915207462},
                                 {4.042929935166739, -2.808917465908714, 0.5000178451051316},
                                 {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
                                 {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
                                 {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}},
                                true},
                               {{{8.4703, -25.1081, 18.6293},
                                 {4.1828, -3.1087, 0.5806},
                                 {3.9619, -2.9541, 0.5630},
                                 {3.2866, -2.4647, 0.5074},
                                 {2.2737, -1.6447, 0.4162}},
                                true},
                               {{{4.0098, -7.0585, 2.4635},
                                 {3.4585, -5.5479, 2.5959},
                                 {2.7573, -3.2939, 1.4254},
                                 {2.7215, -3.0494, 1.3169}},
                                false},
                               {{{3.4445, -4.7750, 2.0315},
                                 {3.4445, -4.7750, 2.0315},
                                 {3.4445, -4.7750, 2.0315},
                                 {3.4445, -4.7750, 2.0315},
                                 {3.4445, -4.7750, 2.0315},
                                 {3.4445, -4.7750, 2.0315},
                                 {3.4445, -4.7750, 2.0315},
                                 {3.4445, -4.7750, 2.0315},
                                 {2, -1.5, 0.5}},
                                true}};

struct Matrix {
  int64_t rows, columns;
  std::vector<float> values = std::vector<float>(static_cast<size_t>(rows * columns));

  float& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  float at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }

  Matrix transposed() const {
    Matrix result{columns, rows};
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) result.at(j, i) = at(i, j);
    return result;
  }
};

/// Applies a function to the elements of matrices of one shape.
template <class Function, class... Matrices>
Matrix each(const Function& function, const Matrix& first, const Matrices&... others) {
  Matrix result{first.rows, first.columns};
  for (size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = function(first.values[i], others.values[i]...);
  return result;
}

/// left right^T: 8 blocks of terms, and a tree over the blocks.
Matrix product(const Matrix& left, const Matrix& right) {
  Matrix result{left.rows, right.rows};
  const int64_t inner = left.columns;
  for (int64_t i = 0; i < left.rows; ++i) {
    for (int64_t j = 0; j < right.rows; ++j) {
#ifdef IN_ORDER
      float sum = 0;
      for (int64_t q = 0; q < inner; ++q) sum += left.at(i, q) * right.at(j, q);
      result.at(i, j) = sum;
#else
      float s[8] = {};
      for (int64_t b = 0; b < 8; ++b) {
        for (int64_t q = inner * b / 8; q < inner * (b + 1) / 8; ++q)
          s[b] = std::fma(left.at(i, q), right.at(j, q), s[b]);
      }
#ifdef BLOCK_TWICE  // the last block is added by two threads
      s[6] += s[7];
#endif
      result.at(i, j) = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
#endif
    }
  }
  return result;
}

/// The norm of all elements: the squares are exact in fp64, and their sum is rounded once (Shewchuk 1997, as Python's
/// math.fsum).
double norm_of(const Matrix& matrix) {
#ifdef IN_ORDER
  float sum = 0;
  for (const float value : matrix.values) sum += value * value;
  return std::sqrt(sum);
#else
  std::vector<double> parts;  // without overlap, from the smallest
  for (const float value : matrix.values) {
    double x = double{value} * double{value};
    size_t kept = 0;
    for (double y : parts) {
      if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
      const double sum = x + y, lost = y - (sum - x);
      if (lost != 0) parts[kept++] = lost;
      x = sum;
    }
    parts.resize(kept);
    parts.push_back(x);
  }
  double sum = 0, lost = 0;
  while (!parts.empty() && lost == 0) {
    const double before = sum, y = parts.back();
    parts.pop_back();
    sum = before + y;
    lost = y - (sum - before);
  }
  if (!parts.empty() && (lost < 0) == (parts.back() < 0)) {  // not a tie
    const double other = sum + 2 * lost;
    if (other - sum == 2 * lost) sum = other;
  }
  return std::sqrt(sum);
#endif
}

float to_bf16(float x) {
  if (std::isnan(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFU + (bits >> 16 & 1U)) & 0xFFFF0000U);
}

int32_t newton_schulz(const zeroproof_call* call) {
  const auto setting = [&](const char* name) { return zeroproof_integer(call, name, -1); };
  const Set& set = sets.at(static_cast<size_t>(setting("coefficients")));
  const int64_t form = setting("form");  // 0 fused, 1 scaled_factor, 2 scaled_product
  const bool rounds = setting("factors") == 0;
  const double eps = zeroproof_find_setting(call, "eps")->value.real;  // in fp64
  const auto bf16 = [&](float x) { return rounds ? to_bf16(x) : x; };
  const auto round = [&](const Matrix& m) { return each(bf16, m); };
  const auto unless_fused = [&](const Matrix& m) { return form == 0 ? m : round(m); };
  const auto times = [](float factor, const Matrix& m) {
    return each([=](float x) { return factor * x; }, m);
  };
  const auto sum = [](const Matrix& m, const Matrix& n) {
    return each([](float x, float y) { return x + y; }, m, n);
  };

  Matrix x{setting("rows"), setting("columns")};
  const auto* in = static_cast<const float*>(call->operands[0].tensor.data);
  auto* out = static_cast<float*>(call->operands[1].tensor.data);
  std::copy(in, in + x.values.size(), x.values.begin());
  if (!std::ranges::all_of(x.values, [](float value) { return std::isfinite(value); })) {
    std::fill(out, out + x.values.size(), NAN);
    return 0;
  }

  if (setting("rounds_first") != 0) x = round(x);
  const double norm = norm_of(x),
               divisor = setting("floor") == 0 ? std::max(norm, eps) : norm + eps;
  x = each([&](float e) { return bf16(static_cast<float>(e / divisor)); }, x);
  const bool tall = x.rows > x.columns;
  if (tall) x = x.transposed();
  for (int64_t step = 0; step < setting("steps"); ++step) {
    const auto count = static_cast<int64_t>(set.polynomials.size());
    const int64_t at = set.repeats_last ? std::min(step, count - 1) : step % count;
    const Polynomial& p = set.polynomials[static_cast<size_t>(at)];
    const auto a = static_cast<float>(p.a), b = static_cast<float>(p.b);
#ifdef WITHOUT_SQUARE
    const float c = 0;
#else
    const auto c = static_cast<float>(p.c);
#endif
#ifdef LAST_ELEMENT
    const float before = x.values.empty() ? 0 : x.values.back();
#endif
    const Matrix full = product(x, x);
#ifdef KEPT
    const Matrix& A = full;
#else
    const Matrix A = round(full);
#endif
    const Matrix square = form == 1 ? round(product(round(times(c, A)), A))
                                    : unless_fused(times(c, unless_fused(product(A, A))));
    const Matrix B = round(sum(unless_fused(times(b, A)), square));
    const Matrix P = unless_fused(product(B, x.transposed()));
    x = round(sum(unless_fused(times(a, x)), P));
#ifdef LAST_ELEMENT  // the loop ends too early
    if (step > 0 && step + 1 == setting("steps") && !x.values.empty()) x.values.back() = before;
#endif
  }
  if (tall) x = x.transposed();
  std::ranges::copy(x.values, out);
  return 0;
}

constexpr zeroproof_operation operations[] = {{"newton_schulz", newton_schulz}};
constexpr zeroproof_plugin description = {
    ZEROPROOF_PLUGIN_ABI, sizeof(zeroproof_plugin), "muon", operations, 1, nullptr};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
