#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/error.hpp"
#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/matrix_product.hpp"

namespace zeroproof {

/// Published polynomials of the Newton-Schulz iteration [Muon:coefficients].
enum class NewtonSchulzSet : std::uint8_t {
  simple,              ///< Jordan: one polynomial
  quintic,             ///< Cesista, You and Jordan
  polar_express,       ///< as Emerging-Optimizers has it, 8 polynomials
  polar_express_dion,  ///< as Dion and nanochat have it, 5 polynomials
  cans,                ///< Grishina, Smirnov and Rakhuba
  aol,                 ///< for an input scaled by almost orthogonal layers
  deepseekv4           ///< simple 8 times, then (2, -1.5, 0.5)
};

/// a x + b x^3 + c x^5, in fp64 as published; each is rounded to fp32 once where it is used.
struct QuinticPolynomial {
  double a = 0, b = 0, c = 0;

  bool operator==(const QuinticPolynomial&) const = default;
};

/// How the polynomial of a matrix is computed from products (R28). All three have one value in exact arithmetic.
enum class PolynomialForm : std::uint8_t {
  fused,          ///< b A + c (A A) is rounded once: addmm of PyTorch
  scaled_factor,  ///< (c A) A, every operation is rounded: b * A + c * A @ A of Python
  scaled_product  ///< c (A A), every operation is rounded
};

/// How a norm of zero is avoided.
enum class NormFloor : std::uint8_t {
  clamp,  ///< max(N, eps)
  add     ///< N + eps
};

struct NewtonSchulzOptions {
  NewtonSchulzSet coefficients = NewtonSchulzSet::simple;
  int steps = 5;  ///< 1..64
  PolynomialForm form = PolynomialForm::fused;
  MatrixFactors factors = MatrixFactors::bf16;
  NormFloor floor = NormFloor::clamp;
  double eps = 1e-7;          ///< finite, >= 2^-126
  bool rounds_first = false;  ///< the input is rounded as factors are before its norm is taken

  bool operator==(const NewtonSchulzOptions&) const = default;
};

namespace detail {
inline constexpr QuinticPolynomial ns_simple[] = {{3.4445, -4.7750, 2.0315}};
inline constexpr QuinticPolynomial ns_quintic[] = {{4.0848, -6.8946, 2.9270},
                                                   {3.9505, -6.3029, 2.6377},
                                                   {3.7418, -5.5913, 2.3037},
                                                   {2.8769, -3.1427, 1.2046},
                                                   {2.8366, -3.0525, 1.2012}};
inline constexpr QuinticPolynomial ns_polar_express[] = {
    {8.2051, -22.9019, 16.4607}, {4.0664, -2.8612, 0.5184}, {3.9096, -2.8234, 0.5250},
    {3.2856, -2.4153, 0.4853},   {2.2779, -1.6198, 0.3985}, {1.8726, -1.2307, 0.3585},
    {1.8564, -1.2132, 0.3568},   {1.8750, -1.2500, 0.3750}};
inline constexpr QuinticPolynomial ns_polar_express_dion[] = {
    {8.156554524902461, -22.48329292557795, 15.878769915207462},
    {4.042929935166739, -2.808917465908714, 0.5000178451051316},
    {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
    {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
    {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};
inline constexpr QuinticPolynomial ns_cans[] = {{8.4703, -25.1081, 18.6293},
                                                {4.1828, -3.1087, 0.5806},
                                                {3.9619, -2.9541, 0.5630},
                                                {3.2866, -2.4647, 0.5074},
                                                {2.2737, -1.6447, 0.4162}};
inline constexpr QuinticPolynomial ns_aol[] = {{4.0098, -7.0585, 2.4635},
                                               {3.4585, -5.5479, 2.5959},
                                               {2.7573, -3.2939, 1.4254},
                                               {2.7215, -3.0494, 1.3169}};
inline constexpr QuinticPolynomial ns_deepseekv4[] = {{3.4445, -4.7750, 2.0315},
                                                      {3.4445, -4.7750, 2.0315},
                                                      {3.4445, -4.7750, 2.0315},
                                                      {3.4445, -4.7750, 2.0315},
                                                      {3.4445, -4.7750, 2.0315},
                                                      {3.4445, -4.7750, 2.0315},
                                                      {3.4445, -4.7750, 2.0315},
                                                      {3.4445, -4.7750, 2.0315},
                                                      {2, -1.5, 0.5},
                                                      {2, -1.5, 0.5}};
}  // namespace detail

/// One row of the table of sets.
struct NewtonSchulzSetTraits {
  NewtonSchulzSet set;
  std::string_view name;  ///< as in configuration files and reports
  Span<const QuinticPolynomial> polynomials;
  bool repeats_last;  ///< after the last polynomial it comes again; otherwise the first follows
};

/// In the order of the enumerators.
inline constexpr std::array<NewtonSchulzSetTraits, 7> newton_schulz_sets = {{
    {NewtonSchulzSet::simple, "simple", detail::ns_simple, false},
    {NewtonSchulzSet::quintic, "quintic", detail::ns_quintic, false},
    {NewtonSchulzSet::polar_express, "polar_express", detail::ns_polar_express, true},
    {NewtonSchulzSet::polar_express_dion, "polar_express_dion", detail::ns_polar_express_dion,
     true},
    {NewtonSchulzSet::cans, "cans", detail::ns_cans, true},
    {NewtonSchulzSet::aol, "aol", detail::ns_aol, false},
    {NewtonSchulzSet::deepseekv4, "deepseekv4", detail::ns_deepseekv4, true},
}};

/// The polynomial of iteration `step`, counted from 0. Errors: invalid_argument if there is no such set.
constexpr QuinticPolynomial polynomial_of(NewtonSchulzSet set, int step) {
  const auto row = static_cast<std::size_t>(set);
  ZP_CHECK(row < newton_schulz_sets.size(), ErrorCode::invalid_argument,
           "coefficient set " + std::to_string(row) + " does not exist",
           "its polynomials are undefined", "use one of the sets of R28");
  const NewtonSchulzSetTraits& traits = newton_schulz_sets[row];
  const auto count = traits.polynomials.size();
  const auto at = static_cast<std::size_t>(step);
  return traits.polynomials[traits.repeats_last ? std::min(at, count - 1) : at % count];
}

/// The Newton-Schulz iteration: a matrix with the singular vectors of the given one and singular values near 1.
///
/// Shapes   matrix, orthogonal: [rows, columns], row after row; rows, columns >= 0. They may be the same memory,
///          and do not overlap otherwise.
/// Units    orthogonal has none: the scale of matrix does not matter above eps.
/// Order    R28: the norm as an exact sum, one division, then `steps` polynomials of three products (R27) each.
/// Exact    ordered.
/// Special  A NaN or infinity in matrix makes every element NaN, except that without elements nothing is done. A
///          matrix of zeros gives zeros.
/// Errors   invalid_argument if steps is outside of 1..64, eps is not finite or below 2^-126, an extent is negative,
///          or a view has another numel.
/// Source   [Muon:newton_schulz]; contract R12, R27, R28.
using NewtonSchulzFn = void(const Exec&, const NewtonSchulzOptions&, std::int64_t rows,
                            std::int64_t columns, Span<const float> matrix, Span<float> orthogonal);

}  // namespace zeroproof
