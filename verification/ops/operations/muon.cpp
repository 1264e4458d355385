// Matrix products (R27), Newton-Schulz and the other operations of the rule muon (R28).

#include <algorithm>
#include <array>
#include <cmath>

#include "common/step/muon_names.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/kernel_table.hpp"
#include "reference/operations.hpp"
#include "verification/compare/bounds/muon_bounds.hpp"
#include "verification/compare/bounds/newton_schulz_step_bound.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::verification {
namespace {

/// The largest number whose square is at most n.
std::int64_t root_of(std::int64_t n) {
  std::int64_t side = 0;
  while ((side + 1) * (side + 1) <= n) ++side;
  return side;
}

/// Extents of a product whose three matrices have at most as many elements as the call has.
struct ProductShape {
  std::int64_t rows, columns, inner;
};

constexpr std::array product_shapes = {"square",     "tall",        "wide",      "one row",
                                       "one column", "one element", "outer",     "two terms",
                                       "one matrix", "no terms",    "no columns"};
constexpr std::size_t one_matrix = 8;  // left and right are the same memory

ProductShape product_shape(const OpCall& call) {
  const std::int64_t n = call.numel(), side = root_of(n), third = root_of(n / 3);
  switch (static_cast<std::size_t>(call.variant()) % product_shapes.size()) {
    case 0:
      return {side, side, side};
    case 1:
      return {3 * third, third, third};
    case 2:
      return {third, third, 3 * third};
    case 3:
      return {std::min<std::int64_t>(1, n), side, side};
    case 4:
      return {side, std::min<std::int64_t>(1, n), side};
    case 5:
      return {1, 1, n};
    case 6:
      return {side, side, std::min<std::int64_t>(1, n)};
    case 7:
      return {root_of(n / 2), root_of(n / 2), 2};
    case one_matrix:
      return {third, third, 3 * third};
    case 9:
      return {side, side, 0};
    default:
      return {side, 0, side};
  }
}

bool is_one_matrix(const OpCall& call) {
  return static_cast<std::size_t>(call.variant()) % product_shapes.size() == one_matrix;
}

MatrixFactors product_factors(const OpCall& call) {
  return static_cast<std::size_t>(call.variant()) < product_shapes.size() ? MatrixFactors::bf16
                                                                          : MatrixFactors::fp32;
}

OpFunction run_product(MatrixProductFn* implementation) {
  return [implementation](OpCall& call) {
    const auto [rows, columns, inner] = product_shape(call);
    implementation(call.exec, product_factors(call), rows, columns, inner, call.in<float>(0),
                   call.in<float>(is_one_matrix(call) ? 0 : 1), call.get<float>(2));
  };
}

std::unique_ptr<CallBounds> product_bounds(const OpCall& pristine, const OpCall&) {
  const auto [rows, columns, inner] = product_shape(pristine);
  const Span<const float> left = pristine.in<float>(0), right = pristine.in<float>(1);
  return CallBounds::by([left, right, columns = columns, inner = inner,
                         factors = product_factors(pristine)](std::size_t, std::int64_t i) {
    return matrix_product_bound(factors, left.subspan(i / columns * inner, inner),
                                right.subspan(i % columns * inner, inner));
  });
}

Op matrix_product_op() {
  Op op;
  op.name = "matrix_product";
  op.contract = "matrix_product.hpp";
  op.type = "MatrixProductFn";
  op.exactness = Exactness::ordered;
  op.phases = {Phase::update};
  for (const std::string_view factors : names_of(MatrixFactors{})) {
    for (const char* shape : product_shapes)
      op.variants.push_back(std::string(shape) + ", " + std::string(factors));
  }
  op.operands = {shaped(input("left"), {"rows", "inner"}),
                 shaped(input("right"), {"columns", "inner"}),
                 shaped(output("product"), {"rows", "columns"})};
  op.fills = number_fills();
  op.generate = [](OpCall& call) {  // the same values for candidates that get two buffers
    if (is_one_matrix(call)) std::ranges::copy(call.in<float>(0), call.get<float>(1).begin());
  };
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    const auto [rows, columns, inner] = product_shape(call);
    return {{"rows", rows},
            {"columns", columns},
            {"inner", inner},
            {"factors", static_cast<std::int64_t>(product_factors(call))}};
  };
  op.bounds = product_bounds;
  op.reference = run_product(reference::matrix_product);
  op.host = run_product(cuda::host::matrix_product);
  op.device = run_product(on_device<cuda::device::matrix_product>);
  return op;
}

enum class MatrixForm : std::uint8_t { square, tall, wide, one_row, one_column };

struct NewtonSchulzVariant {
  const char* name;
  NewtonSchulzOptions options;
  MatrixForm form = MatrixForm::square;
  bool in_place = false;
};

/// Every set, form, kind of factors, floor and shape; sets with more and with fewer steps than polynomials.
const std::vector<NewtonSchulzVariant>& newton_schulz_variants() {
  using Set = NewtonSchulzSet;
  using Form = PolynomialForm;
  using Shape = MatrixForm;
  constexpr MatrixFactors bf16 = MatrixFactors::bf16, fp32 = MatrixFactors::fp32;
  constexpr NormFloor clamp = NormFloor::clamp, add = NormFloor::add;
  static const std::vector<NewtonSchulzVariant> all = {
      {"usual", {}},
      {"usual tall", {}, Shape::tall},
      {"usual wide", {}, Shape::wide},
      {"simple scaled_factor tall",
       {Set::simple, 5, Form::scaled_factor, bf16, add, 1e-7, true},
       Shape::tall},
      {"simple scaled_product wide",
       {Set::simple, 3, Form::scaled_product, fp32, clamp, 1e-7},
       Shape::wide},
      {"quintic fused wide", {Set::quintic, 7, Form::fused, bf16, clamp, 1e-15}, Shape::wide},
      {"quintic scaled_factor",
       {Set::quintic, 5, Form::scaled_factor, fp32, add, 1e-5},
       Shape::square,
       true},
      {"polar_express scaled_product tall",
       {Set::polar_express, 8, Form::scaled_product, bf16, add, 1e-7},
       Shape::tall},
      {"polar_express fused", {Set::polar_express, 10, Form::fused, fp32, clamp, 1e-7}},
      {"polar_express_dion scaled_factor wide",
       {Set::polar_express_dion, 5, Form::scaled_factor, bf16, add, 1e-6},
       Shape::wide},
      {"polar_express_dion fused tall",
       {Set::polar_express_dion, 6, Form::fused, fp32, clamp, 1e-7},
       Shape::tall},
      {"cans scaled_product", {Set::cans, 5, Form::scaled_product, bf16, clamp, 0.5, true}},
      {"cans scaled_factor wide",
       {Set::cans, 7, Form::scaled_factor, fp32, clamp, 1e-7},
       Shape::wide},
      {"aol fused tall", {Set::aol, 5, Form::fused, bf16, add, 1e-7}, Shape::tall, true},
      {"aol scaled_product", {Set::aol, 4, Form::scaled_product, fp32, add, 1e-7}},
      {"deepseekv4 fused", {Set::deepseekv4, 10, Form::fused, bf16, clamp, 1e-7}, Shape::tall},
      {"deepseekv4 scaled_factor",
       {Set::deepseekv4, 12, Form::scaled_factor, fp32, clamp, 1e-7},
       Shape::wide},
      {"one step", {Set::polar_express, 1, Form::scaled_product, bf16, clamp, 1e-7}, Shape::tall},
      {"one row", {Set::simple, 5, Form::fused, bf16, clamp, 1e-7}, Shape::one_row},
      {"one row scaled_factor",
       {Set::cans, 5, Form::scaled_factor, fp32, clamp, 1e-7},
       Shape::one_row},
      {"one column", {Set::quintic, 5, Form::scaled_factor, bf16, clamp, 1e-7}, Shape::one_column},
      {"one column fused", {Set::aol, 5, Form::fused, fp32, add, 1e-7}, Shape::one_column, true},
  };
  return all;
}

MatrixShape matrix_shape(MatrixForm form, std::int64_t numel) {
  const std::int64_t third = root_of(numel / 3);
  switch (form) {
    case MatrixForm::square:
      return {root_of(numel), root_of(numel)};
    case MatrixForm::tall:
      return {(3 * third + 1) * third <= numel ? 3 * third + 1 : 3 * third, third};
    case MatrixForm::wide:
      return {third, 3 * third};
    case MatrixForm::one_row:
      return {1, numel};
    case MatrixForm::one_column:
      return {numel, 1};
  }
  return {};
}

/// Beyond the number of variants the same ones follow with one step less, two less, and so on: they are called for bounds.
NewtonSchulzVariant newton_schulz_variant(const OpCall& call) {
  const auto count = static_cast<int>(newton_schulz_variants().size());
  NewtonSchulzVariant v =
      newton_schulz_variants()[static_cast<std::size_t>(call.variant() % count)];
  v.options.steps -= call.variant() / count;
  return v;
}

std::vector<int> calls_with_fewer_steps(const OpCall& pristine) {
  std::vector<int> variants;
  for (int fewer = newton_schulz_variant(pristine).options.steps - 1; fewer >= 1; --fewer)
    variants.push_back(pristine.variant() +
                       fewer * static_cast<int>(newton_schulz_variants().size()));
  return variants;
}

OpFunction run_newton_schulz(NewtonSchulzFn* implementation) {
  return [implementation](OpCall& call) {
    const NewtonSchulzVariant v = newton_schulz_variant(call);
    const auto [rows, columns] = matrix_shape(v.form, call.numel());
    const Span<const float> matrix = call.in<float>(0);
    const Span<float> orthogonal = call.get<float>(1);
    if (!v.in_place) return implementation(call.exec, v.options, rows, columns, matrix, orthogonal);
    std::ranges::copy(matrix, orthogonal.begin());
    implementation(call.exec, v.options, rows, columns, orthogonal, orthogonal);
  };
}

/// Values of the fill. One that is not finite makes the whole result NaN, so that most calls have none.
void draw_matrix(OpCall& call) {
  const Fill fill = call.shape().fill;
  const Span<float> matrix = call.get<float>(0);
  const bool nonfinite = call.shape().first_index % 8 == 3;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    matrix[i] =
        fill_value(fill, Content::value, call.shape().first_index + i, call.words(0, index));
    if (!std::isfinite(matrix[i]) && !nonfinite) matrix[i] = 1;
  }
}

/// A matrix as a whole is within its bound, or none of its elements: each has the matrix's share of it.
class MatrixBounds final : public CallBounds {
 public:
  MatrixBounds(const NewtonSchulzBound& bound, Span<const float> candidate)
      : bound_(bound),
        candidate_(candidate),
        judged_(std::isfinite(bound.distance()) && (!bound.vacuous() || bound.norm() == 0)),
        ratio_(bound.ratio(candidate)) {}

  ElementBound of(std::size_t, std::int64_t i) override {
    const double exact = bound_.exact()[static_cast<std::size_t>(i)];
    if (std::isnan(exact)) return {exact, 0, true};
    if (!judged_) return {exact, 0, false, ResultClasses::everything};
    const double distance = std::fabs(candidate_[static_cast<std::size_t>(i)] - exact);
    return {exact, ratio_ > 0 ? distance / ratio_ : 0, true};
  }

 private:
  NewtonSchulzBound bound_;
  Span<const float> candidate_;
  bool judged_;
  double ratio_;
};

/// Step by step: every result of fewer steps has to be within the bounds of one iteration from the one before it. If one
/// is not, no element of the result is within its bound either.
class StepwiseBounds final : public CallBounds {
 public:
  StepwiseBounds(const OpCall& pristine, const OpCall& candidate)
      : result_(candidate.in<float>(1)) {
    const NewtonSchulzVariant v = newton_schulz_variant(pristine);
    const auto [rows, columns] = matrix_shape(v.form, pristine.numel());
    const MatrixRounding rounding = MatrixRounding::of(v.options.factors);
    Span<const float> before = pristine.in<float>(0);
    for (int step = 0; step < v.options.steps; ++step) {
      const bool last = step + 1 == v.options.steps;
      const Span<const float> after =
          last ? result_ : candidate.earlier[static_cast<std::size_t>(step)].in<float>(1);
      elements_ = newton_schulz_step_bounds(v.options, step, rows, columns, before, rounding);
      NewtonSchulzOptions one = v.options;
      one.steps = 1;
      const NewtonSchulzBound whole =
          step == 0 ? NewtonSchulzBound::of(one, rows, columns, before, rounding)
                    : NewtonSchulzBound::of_iterations(v.options, step, step + 1, rows, columns,
                                                       before, rounding);
      worst_ = std::max(worst_, whole.ratio(after));
      for (std::size_t i = 0; i < after.size() && !last; ++i)
        worst_ = std::max(worst_, elements_[i].ratio(after[i]));
      before = after;
    }
    const auto judged = [](const ElementBound& bound) { return bound.judged; };
    if (worst_ <= 1 || std::ranges::all_of(elements_, judged)) return;
    const NewtonSchulzBound whole =
        NewtonSchulzBound::of(v.options, rows, columns, pristine.in<float>(0), rounding);
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      elements_[i] = whole.element(static_cast<std::int64_t>(i));
      elements_[i].judged = true;  // by the step before
    }
  }

  ElementBound of(std::size_t, std::int64_t i) override {
    const auto at = static_cast<std::size_t>(i);
    const ElementBound& bound = elements_[at];
    if (worst_ <= 1) return bound;
    const long double share = std::fabs(result_[at] - bound.exact) / worst_;
    return {bound.exact, std::min(bound.allowed, share), true};
  }

 private:
  Span<const float> result_;
  std::vector<ElementBound> elements_;
  double worst_ = 0;  ///< the largest ratio of a matrix, and of an element before the last step
};

std::unique_ptr<CallBounds> newton_schulz_bounds(const OpCall& pristine, const OpCall& candidate) {
  const NewtonSchulzVariant v = newton_schulz_variant(pristine);
  if (candidate.earlier.size() + 1 == static_cast<std::size_t>(v.options.steps))
    return std::make_unique<StepwiseBounds>(pristine, candidate);
  const auto [rows, columns] = matrix_shape(v.form, pristine.numel());
  return std::make_unique<MatrixBounds>(
      NewtonSchulzBound::of(v.options, rows, columns, pristine.in<float>(0),
                            MatrixRounding::of(v.options.factors)),
      candidate.in<float>(1));
}

Op newton_schulz_op() {
  Op op;
  op.name = "newton_schulz";
  op.contract = "newton_schulz.hpp";
  op.type = "NewtonSchulzFn";
  op.exactness = Exactness::ordered;
  op.phases = {Phase::update};
  for (const NewtonSchulzVariant& v : newton_schulz_variants()) op.variants.emplace_back(v.name);
  op.operands = {shaped(input("matrix", Content::given), {"rows", "columns"}),
                 shaped(output("orthogonal"), {"rows", "columns"})};
  op.fills = number_fills();
  op.largest = 2053;
  op.generate = draw_matrix;
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    const NewtonSchulzVariant v = newton_schulz_variant(call);
    const auto [rows, columns] = matrix_shape(v.form, call.numel());
    std::vector<OpSetting> settings = described(v.options, rows, columns);
    settings.push_back({"in_place", std::int64_t{v.in_place ? 1 : 0}});
    return settings;
  };
  op.bounds = newton_schulz_bounds;
  op.earlier = calls_with_fewer_steps;
  op.reference = run_newton_schulz(reference::newton_schulz);
  op.host = run_newton_schulz(cuda::host::newton_schulz);
  op.device = run_newton_schulz(on_device<cuda::device::newton_schulz>);
  op.host_of = [](const cuda::KernelTable& ops) { return run_newton_schulz(ops.newton_schulz); };
  return op;
}

/// Forms of the momentum; the last one has direction in the memory of grad.
constexpr int momentum_forms = 5;

UpdateSettings momentum_settings(int variant) {
  const int form = variant % momentum_forms;
  OptimizerHyper options;
  options.rule = UpdateRule::muon;
  options.momentum = 0.95;
  options.nesterov = form == 1 || form >= 3;
  options.maximize = form >= 3;
  options.muon.family = form >= 2 ? MomentumFamily::heavy_ball : MomentumFamily::ema;
  return update_settings(variant / momentum_forms, options);
}

OpFunction run_momentum(MuonMomentumFn* implementation) {
  return [implementation](OpCall& call) {
    const UpdateSettings s = momentum_settings(call.variant());
    const MuonMomentumOptions options = {s.hyper.nesterov, s.hyper.maximize};
    const Span<float> direction = call.get<float>(2);
    Span<const float> grad = call.in<float>(0);
    if (call.variant() % momentum_forms == momentum_forms - 1) {
      std::ranges::copy(grad, direction.begin());
      grad = direction;
    }
    implementation(call.exec, options, s.scalars, grad, call.get<float>(1), direction);
  };
}

std::unique_ptr<CallBounds> momentum_bounds(const OpCall& pristine, const OpCall&) {
  const Span<const float> grad = pristine.in<float>(0), exp_avg = pristine.in<float>(1);
  return CallBounds::by(
      [grad, exp_avg, bounds = MuonBounds(momentum_settings(pristine.variant()).hyper)](
          std::size_t operand, std::int64_t i) {
        const MuonBounds::Momentum bound = bounds.momentum(grad[i], exp_avg[i]);
        return operand == 1 ? bound.exp_avg : bound.direction;
      });
}

Op momentum_op() {
  Op op;
  op.name = "muon_momentum";
  op.contract = "muon.hpp";
  op.type = "MuonMomentumFn";
  op.phases = {Phase::update};
  op.variants = update_variants({"ema", "ema nesterov", "heavy ball",
                                 "heavy ball nesterov, maximize", "the same in grad's memory"});
  op.operands = {input("grad"), in_place("exp_avg", Content::moment), output("direction")};
  op.fills = number_fills();
  op.largest = 8209;
  op.settings = [](const OpCall& call) {
    return described_momentum(momentum_settings(call.variant()));
  };
  op.bounds = momentum_bounds;
  op.reference = run_momentum(reference::muon_momentum);
  op.host = run_momentum(cuda::host::muon_momentum);
  op.device = run_momentum(on_device<cuda::device::muon_momentum>);
  op.host_of = [](const cuda::KernelTable& ops) { return run_momentum(ops.muon_momentum); };
  return op;
}

/// The scale, its factor and the rate of a variant.
UpdateSettings step_size_settings(int variant) {
  constexpr std::array<double, 3> factors = {1, 0.3, 0x1.123456789abcdp3};
  const int scales = static_cast<int>(names_of(MuonScale{}).size());
  OptimizerHyper options;
  options.rule = UpdateRule::muon;
  options.muon.scale = static_cast<MuonScale>(variant % scales);
  options.muon.scale_factor = factors[static_cast<std::size_t>(variant / scales)];
  return update_settings(variant / scales == 0 ? 0 : 2, options);
}

/// Extents from 0, which is refused, to those of large matrices.
void draw_extents(OpCall& call) {
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const PhiloxBlock w = call.words(0, i);
    const auto at = static_cast<std::size_t>(i);
    call.get<std::uint32_t>(0)[at] = w[0] >> (1 + w[1] % 31U);
    call.get<std::uint32_t>(1)[at] =
        w[1] % 5U == 0 ? call.get<std::uint32_t>(0)[at] : w[2] >> (1 + w[3] % 31U);
  }
}

OpFunction run_step_size(MuonStepSizeFn* implementation) {
  return [implementation](OpCall& call) {
    const UpdateSettings s = step_size_settings(call.variant());
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      float step_size = 0;
      call.get<std::uint32_t>(3)[i] = refused([&] {
        step_size = implementation(s.hyper.muon, s.scalars, call.in<std::uint32_t>(0)[i],
                                   call.in<std::uint32_t>(1)[i]);
      });
      call.get<float>(2)[i] = step_size;
    }
  };
}

Op step_size_op() {
  Op op;
  op.name = "muon_step_size";
  op.contract = "muon.hpp";
  op.type = "MuonStepSizeFn";
  op.phases = {Phase::update};
  for (const char* factor : {"factor 1", "factor 0.3", "a long factor"}) {
    for (const std::string_view scale : names_of(MuonScale{}))
      op.variants.push_back(std::string(scale) + ", " + factor);
  }
  op.operands = {input("rows", Content::given, DType::u32),
                 input("columns", Content::given, DType::u32), output("step_size"),
                 output("refused", DType::u32)};
  op.fills = {Fill::sweep};
  op.largest = 4097;
  op.generate = draw_extents;
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    const UpdateSettings s = step_size_settings(call.variant());
    return described(s.hyper.muon, s.scalars);
  };
  op.reference = run_step_size(reference::muon_step_size);
  op.host = run_step_size(cuda::host::muon_step_size);
  op.device = run_step_size(cuda::device::muon_step_size);
  op.host_of = [](const cuda::KernelTable& ops) { return run_step_size(ops.muon_step_size); };
  return op;
}

/// Step sizes of an update.
constexpr std::array<float, 4> step_sizes = {0.0021F, 1.0F, 0.37F, 0x1.8p40F};

UpdateSettings muon_update_settings(int variant) {
  OptimizerHyper options;
  options.rule = UpdateRule::muon;
  return update_settings(variant / static_cast<int>(step_sizes.size()), options);
}

float step_size_of(const OpCall& call) {
  return step_sizes[static_cast<std::size_t>(call.variant()) % step_sizes.size()];
}

OpFunction run_update(MuonUpdateFn* implementation) {
  return [implementation](OpCall& call) {
    implementation(call.exec, muon_update_settings(call.variant()).scalars, step_size_of(call),
                   call.in<float>(0), call.get<float>(1));
  };
}

std::unique_ptr<CallBounds> update_bounds(const OpCall& pristine, const OpCall&) {
  const Span<const float> orthogonal = pristine.in<float>(0), master = pristine.in<float>(1);
  return CallBounds::by([orthogonal, master, step_size = step_size_of(pristine),
                         bounds = MuonBounds(muon_update_settings(pristine.variant()).hyper)](
                            std::size_t, std::int64_t i) {
    return bounds.master(step_size, orthogonal[i], master[i]);
  });
}

Op muon_update_op() {
  Op op;
  op.name = "muon_update";
  op.contract = "muon.hpp";
  op.type = "MuonUpdateFn";
  op.phases = {Phase::update};
  op.variants = update_variants({"step 0.0021", "step 1", "step 0.37", "step 1.5 * 2^40"});
  op.operands = {input("orthogonal"), in_place("master", Content::weight)};
  op.fills = number_fills();
  op.largest = 8209;
  op.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    const StepScalars& s = muon_update_settings(call.variant()).scalars;
    return {{"step_size", double{step_size_of(call)}},
            {"scalar.lr_weight_decay", double{s.lr_weight_decay}},
            {"scalar.has_decay", std::int64_t{s.has_decay}}};
  };
  op.bounds = update_bounds;
  op.reference = run_update(reference::muon_update);
  op.host = run_update(cuda::host::muon_update);
  op.device = run_update(on_device<cuda::device::muon_update>);
  op.host_of = [](const cuda::KernelTable& ops) { return run_update(ops.muon_update); };
  return op;
}

}  // namespace

std::vector<Op> muon_ops() {
  return {matrix_product_op(), newton_schulz_op(), momentum_op(), step_size_op(), muon_update_op()};
}

}  // namespace zeroproof::verification
