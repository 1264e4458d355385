// Muon in identify: steps that packages took, and steps with one mutated choice.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "reference/operations.hpp"
#include "tests/support/paths.hpp"
#include "tests/verification/tools/identify/made_step.hpp"
#include "verification/tools/identify/identify.hpp"
#include "verification/tools/identify/muon_text.hpp"

namespace muon_dialects_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

const std::filesystem::path recorded = std::filesystem::path(source_folder()) /
                                       "tests/verification/tools/identify/recorded_steps/muon";

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

RecordedStep step_named(const std::string& file) { return read_step((recorded / file).string()); }

/// Muon with the choices of tinygrad, in fp64 and rounded to fp32 once; its parts can be replaced.
struct Maker {
  double lr = 0.02, decay = 0.1, momentum = 0.95;
  std::function<double(double g, double m)> take = [](double g, double m) { return 0.95 * m + g; };
  std::function<double(double g, double m, double old)> mix = [](double g, double m, double) {
    return g + 0.95 * m;
  };
  std::function<Matrix(const Matrix&)> orthogonal = [](const Matrix& e) {
    return exact_orthogonal(e, {NewtonSchulzSet::simple, 5}, e.norm()).back();
  };
  std::function<double(double r, double c)> scale = [](double, double) { return 1.0; };
  std::function<double(double p, double o, double z)> write = [](double p, double o, double z) {
    return p * (1 - 0.02 * 0.1) - 0.02 * z * o;
  };

  RecordedStep step() const {
    DialectHyper h;
    h.rule = UpdateRule::muon;
    h.lr = lr;
    h.weight_decay = decay;
    h.momentum = momentum;
    h.t = 3;
    RecordedStep made = step_named("torch-muon.torch.default.3.safetensors");
    made.hyper = h;
    for (StepTensor& t : made.tensors) {
      Matrix e{t.rows, t.columns, std::vector<double>(t.numel())};
      for (std::size_t i = 0; i < t.numel(); ++i) {
        const double old = t.before.momentum_buffer[i];
        t.after.momentum_buffer[i] = static_cast<float>(take(t.grad[i], old));
        e.values[i] = mix(t.grad[i], t.after.momentum_buffer[i], old);
      }
      const Matrix o = orthogonal(e);
      const double z = scale(static_cast<double>(t.rows), static_cast<double>(t.columns));
      for (std::size_t i = 0; i < t.numel(); ++i)
        t.after.master[i] = static_cast<float>(write(t.before.master[i], o.values[i], z));
    }
    return made;
  }
};

Matrix part(const Matrix& e, std::size_t from, std::size_t to) {
  const auto at = [&](std::size_t row) {
    return e.values.begin() + static_cast<std::ptrdiff_t>(row * e.columns);
  };
  return {to - from, e.columns, {at(from), at(to)}};
}

/// Newton-Schulz of the rows of each of two ranks.
Matrix of_slices(const Matrix& e) {
  const std::size_t half = (e.rows + 1) / 2;
  Matrix o{e.rows, e.columns, {}};
  for (const auto& [from, to] : {std::pair{std::size_t{0}, half}, {half, e.rows}}) {
    const Matrix slice = part(e, from, to);
    const Matrix result =
        exact_orthogonal(slice, {NewtonSchulzSet::simple, 5}, slice.norm()).back();
    o.values.insert(o.values.end(), result.values.begin(), result.values.end());
  }
  return o;
}

/// With other polynomials, in fp64.
Matrix with_polynomial(const Matrix& e, double a, double b, double c, int steps) {
  const bool tall = e.rows > e.columns;
  const std::size_t k = tall ? e.columns : e.rows, n = tall ? e.rows : e.columns;
  std::vector<double> x(k * n);
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      x[i * n + j] = (tall ? e.values[j * e.columns + i] : e.values[i * e.columns + j]) / e.norm();
  }
  for (int step = 0; step < steps; ++step) {
    std::vector<double> gram(k * k), mixed(k * k), next(k * n);
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = 0; j < k; ++j) {
        for (std::size_t q = 0; q < n; ++q) gram[i * k + j] += x[i * n + q] * x[j * n + q];
      }
    }
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = 0; j < k; ++j) {
        double square = 0;
        for (std::size_t q = 0; q < k; ++q) square += gram[i * k + q] * gram[q * k + j];
        mixed[i * k + j] = b * gram[i * k + j] + c * square;
      }
    }
    for (std::size_t i = 0; i < k; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        next[i * n + j] = a * x[i * n + j];
        for (std::size_t q = 0; q < k; ++q) next[i * n + j] += mixed[i * k + q] * x[q * n + j];
      }
    }
    x = next;
  }
  Matrix o = e;
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      (tall ? o.values[j * e.columns + i] : o.values[i * e.columns + j]) = x[i * n + j];
  }
  return o;
}

}  // namespace

TEST_CASE("identify muon: steps that packages took are those of their dialects") {
  int files = 0;
  std::set<std::string> dialects;
  for (const auto& entry : std::filesystem::directory_iterator(recorded)) {
    const std::string file = entry.path().filename().string();
    const std::string name = file.substr(0, file.find('.'));
    if (name == "wrong") continue;
    CAPTURE(file);
    const RecordedStep step = read_step(entry.path().string());
    const Identification found = identify(step);
    CAPTURE(identification_text(step, found));
    CHECK(found.named());
    CHECK(has(found.fits, name));
    CHECK(found.fits.size() <=
          2);  // deepspeed-muon is keller-jordan-muon where its compiler is off
    dialects.insert(name);
    ++files;
  }
  CHECK(files == 18);
  std::set<std::string> wanted;
  for (const Dialect& d : all_dialects()) {
    if (d.muon && d.name != "contract") wanted.insert(d.name);
  }
  CHECK(dialects == wanted);
}

TEST_CASE(
    "identify muon: a step of the reference is the contract's, with the default settings of R28") {
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::muon;
  hyper.lr = 0.02;
  hyper.weight_decay = 0.1;
  hyper.momentum = 0.95;
  hyper.nesterov = true;
  RecordedStep step = step_named("torch-muon.torch.default.3.safetensors");
  const StepScalars scalars = reference::step_scalars(hyper, 3, 0, 1);
  for (StepTensor& t : step.tensors) {
    const auto rows = static_cast<std::int64_t>(t.rows),
               columns = static_cast<std::int64_t>(t.columns);
    std::vector<float> direction(t.numel()), orthogonal(t.numel());
    t.after = t.before;
    reference::muon_momentum(Exec{}, {.nesterov = true}, scalars, t.grad, t.after.momentum_buffer,
                             direction);
    reference::newton_schulz(Exec{}, hyper.muon.newton_schulz, rows, columns, direction,
                             orthogonal);
    reference::muon_update(Exec{}, scalars,
                           reference::muon_step_size(hyper.muon, scalars, rows, columns),
                           orthogonal, t.after.master);
  }
  const Identification found = identify(step);
  CAPTURE(identification_text(step, found));
  CHECK(found.fits ==
        std::vector<std::string>{"contract", "emerging-muon"});  // it has another scale_factor
}

TEST_CASE(
    "identify muon: choices that the file states are tried first, and a step with others is "
    "wrong") {
  const auto identified = [](const std::function<void(GivenMuon&)>& state) {
    RecordedStep step = step_named("torch-muon.torch.default.3.safetensors");
    state(step.hyper.muon);
    return identify(step);
  };
  const auto right = identified([](GivenMuon& given) {
    given.family = MomentumFamily::ema;
    given.nesterov = true;
    given.coefficients = NewtonSchulzSet::simple;
    given.steps = 5;
    given.scale = MuonScale::original;
    given.floor = NormFloor::clamp;
    given.eps = 1e-7;
  });
  CHECK(right.fits == std::vector<std::string>{"torch-muon"});
  CHECK(right.wrong.empty());
  const auto hint = [&](const std::function<void(GivenMuon&)>& state) {
    const Identification found = identified(state);
    CHECK_FALSE(found.named());
    REQUIRE_FALSE(found.wrong.empty());
    return found.wrong.front();
  };
  CHECK(hint([](GivenMuon& given) { given.steps = 6; }) == "as if Newton-Schulz had 5 steps");
  CHECK(hint([](GivenMuon& given) { given.nesterov = false; }) == "as if nesterov were on");
  CHECK(hint([](GivenMuon& given) { given.factors = MatrixFactors::fp32; }) ==
        "as if Newton-Schulz had factors of bf16");
  CHECK(hint([](GivenMuon& given) { given.family = MomentumFamily::heavy_ball; }) ==
        "as if the momentum were that of ema");
  CHECK(hint([](GivenMuon& given) { given.scale = MuonScale::match_rms_adamw; }) ==
        "as if the scale were original, sqrt(max(1, rows/columns))");
  CHECK(hint([](GivenMuon& given) {
          given.scale_factor = 0.5;
        }).starts_with("as if the updates were multiplied by 2"));
}

TEST_CASE("identify muon: a gradient that is not finite is said to be so") {
  RecordedStep step = step_named("torch-muon.torch.default.3.safetensors");
  step.tensors[1].grad[2] = std::nanf("");
  CHECK(identification_text(step, identify(step))
            .find("1 more: NaN or an infinity in the gradient") != std::string::npos);
}

TEST_CASE("identify muon: in fp32 a scale of 0.1 % more is none that is known") {
  Maker maker;
  maker.scale = [](double, double) { return 1.001; };
  const Identification found = identify(maker.step());
  CHECK(found.muon->near);
  CHECK(std::ranges::none_of(found.muon->scales,
                             [](const FittingScale& s) { return s.factor == 1; }));
  CHECK(found.fits.empty());
}

TEST_CASE("identify muon: the choices of a step are found, each with the others far away") {
  const auto finding = [](const std::string& file) { return find_muon(step_named(file)); };
  const MuonFinding torch = finding("torch-muon.torch.default.3.safetensors");
  CHECK(torch.families == std::vector<MomentumFamily>{MomentumFamily::ema});
  CHECK(torch.choice.same_values({MuonDirection::nesterov, {NewtonSchulzSet::simple, 5}}));
  CHECK(torch.same.empty());
  CHECK(torch.distance() < 1e-6);
  CHECK(torch.noise() > 1e-2);
  REQUIRE(torch.next);
  CHECK(torch.next->distance > 1e-2);
  REQUIRE_FALSE(torch.scales.empty());
  CHECK(torch.products == MuonProducts::fused);
  CHECK(torch.input == MuonInput::bf16_norm_bf16);
  CHECK(torch.scales.front().scaling == MuonScaling{MuonScale::original});
  CHECK(torch.decays == std::vector<std::string>{"lr*wd"});
  CHECK(torch.writes ==
        std::vector{std::pair{MuonWrite::scaled_rate, MuonScaling{MuonScale::original}}});

  const MuonFinding emerging = finding("emerging-muon.emerging.deepseekv4.3.safetensors");
  CHECK(emerging.choice.same_values({MuonDirection::momentum, {NewtonSchulzSet::deepseekv4, 10}}));
  REQUIRE_FALSE(emerging.scales.empty());
  CHECK(emerging.input == MuonInput::bf16_last);
  CHECK(emerging.scales.front().scaling == MuonScaling{MuonScale::match_rms_adamw});

  const MuonFinding optax = finding("optax-muon.optax.default.3.safetensors");
  CHECK(optax.choice.direction == MuonDirection::nesterov_corrected);
  REQUIRE_FALSE(optax.scales.empty());
  CHECK(optax.input == MuonInput::fp32);
  CHECK(optax.scales.front().scaling == MuonScaling{MuonScale::original, true});
  CHECK(optax.writes.empty());

  const MuonFinding moonlight = finding("moonlight-muon.moonlight.default.3.safetensors");
  CHECK(moonlight.families == std::vector<MomentumFamily>{MomentumFamily::heavy_ball});
  CHECK(moonlight.products == MuonProducts::scaled_factor);
}

TEST_CASE("identify muon: floors are found from a matrix with a norm near 1e-7") {
  const auto floors = [](const std::string& file) { return find_muon(step_named(file)).floors; };
  const std::pair add{NormFloor::add, 1e-7}, clamp{NormFloor::clamp, 1e-7};
  const auto jordan = floors("keller-jordan-muon.keller-jordan.edge.1.safetensors");
  CHECK(std::ranges::find(jordan, add) != jordan.end());
  CHECK(std::ranges::find(jordan, clamp) == jordan.end());
  const auto torch = floors("torch-muon.torch.edge.1.safetensors");
  CHECK(std::ranges::find(torch, clamp) != torch.end());
  CHECK(std::ranges::find(torch, add) == torch.end());
}

TEST_CASE("identify muon: one step without momentum does not show Nesterov in fp32") {
  const MuonFinding found = find_muon(step_named("tinygrad-muon.tinygrad.default.1.safetensors"));
  CHECK(found.near);
  CHECK(std::ranges::any_of(found.same, [&](const MuonChoice& c) {
    return c.direction != found.choice.direction &&
           c.polynomials.same_values(found.choice.polynomials);
  }));
}

TEST_CASE("identify muon: a step with one mutated choice is no dialect") {
  REQUIRE(identify(Maker{}.step()).fits == std::vector<std::string>{"tinygrad-muon"});

  struct Mutation {
    const char* name;
    std::function<void(Maker&)> change;
    const char* said;  ///< of the verdict or of the choices
  };
  const auto polynomial = [](double a, double b, double c, int steps) {
    return [=](const Matrix& e) { return with_polynomial(e, a, b, c, steps); };
  };
  const std::vector<Mutation> mutations = {
      {"coefficient a of 3.2", [&](Maker& m) { m.orthogonal = polynomial(3.2, -4.775, 2.0315, 5); },
       "no polynomials"},
      {"coefficient b without its sign",
       [&](Maker& m) { m.orthogonal = polynomial(3.4445, 4.775, 2.0315, 2); }, "no polynomials"},
      {"b and c exchanged", [&](Maker& m) { m.orthogonal = polynomial(3.4445, 2.0315, -4.775, 2); },
       "no polynomials"},
      {"no Newton-Schulz",
       [](Maker& m) {
         m.orthogonal = [](const Matrix& e) {
           Matrix o = e;
           for (double& x : o.values) x /= e.norm();
           return o;
         };
       },
       "without Newton-Schulz"},
      {"Newton-Schulz of slices", [](Maker& m) { m.orthogonal = of_slices; },
       "2 parts of the rows"},
      {"without the norm",
       [](Maker& m) {
         m.orthogonal = [](const Matrix& e) {
           return exact_orthogonal(e, {NewtonSchulzSet::simple, 5}, 1).back();
         };
       },
       "no polynomials"},
      {"norm of the largest element",
       [](Maker& m) {
         m.orthogonal = [](const Matrix& e) {
           double most = 0;
           for (const double x : e.values) most = std::max(most, std::fabs(x));
           return exact_orthogonal(e, {NewtonSchulzSet::simple, 3}, 4 * most).back();
         };
       },
       "no polynomials"},
      {"momentum of 0.9", [](Maker& m) { m.take = [](double g, double b) { return 0.9 * b + g; }; },
       "momentum is neither"},
      {"weights exchanged",
       [](Maker& m) { m.take = [](double g, double b) { return b + 0.95 * g; }; },
       "momentum is neither"},
      {"momentum of ema",
       [](Maker& m) { m.take = [](double g, double b) { return 0.95 * b + 0.05 * g; }; },
       "no polynomials"},
      {"momentum not written", [](Maker& m) { m.take = [](double, double b) { return b; }; },
       "momentum is neither"},
      {"dampened heavy ball",
       [](Maker& m) { m.take = [](double g, double b) { return 0.95 * b + 0.5 * g; }; },
       "momentum is neither"},
      {"Nesterov without mu",
       [](Maker& m) { m.mix = [](double g, double b, double) { return g + b; }; }, "no dialect"},
      {"direction of the old momentum",
       [](Maker& m) { m.mix = [](double g, double, double old) { return g + 0.1 * old; }; },
       "no dialect"},
      {"direction of the gradient",
       [](Maker& m) { m.mix = [](double g, double, double) { return g; }; }, "no dialect"},
      {"scale of r / c without its root",
       [](Maker& m) { m.scale = [](double r, double c) { return std::max(1.0, r / c); }; },
       "scale is none"},
      {"scale sqrt(c / r)",
       [](Maker& m) { m.scale = [](double r, double c) { return std::sqrt(c / r); }; },
       "no dialect"},
      {"scale of a shard of half the rows",
       [](Maker& m) {
         m.scale = [](double r, double c) { return std::sqrt(std::max(1.0, r / 2 / c)); };
       },
       "scale is none"},
      {"rate twice", [](Maker& m) { m.scale = [](double, double) { return 0.02; }; }, "scale"},
      {"no decay",
       [](Maker& m) { m.write = [](double p, double o, double z) { return p - 0.02 * z * o; }; },
       "decay"},
      {"decay with the rate squared",
       [](Maker& m) {
         m.write = [](double p, double o, double z) {
           return p * (1 - 0.02 * 0.002) - 0.02 * z * o;
         };
       },
       "decay"},
      {"decay of the wrong sign",
       [](Maker& m) {
         m.write = [](double p, double o, double z) { return p * (1 + 0.002) - 0.02 * z * o; };
       },
       "decay"},
      {"decay after the step",
       [](Maker& m) {
         m.write = [](double p, double o, double z) { return (p - 0.02 * z * o) * (1 - 0.05); };
       },
       "decay"},
      {"ascent",
       [](Maker& m) {
         m.write = [](double p, double o, double z) { return p * (1 - 0.002) + 0.02 * z * o; };
       },
       "wrong sign"},
  };
  CHECK(mutations.size() >= 20);
  for (const Mutation& mutation : mutations) {
    CAPTURE(std::string(mutation.name));
    Maker maker;
    mutation.change(maker);
    const RecordedStep step = maker.step();
    const Identification found = identify(step);
    const std::string text = identification_text(step, found);
    CAPTURE(text);
    CHECK_FALSE(found.named());
    CHECK(found.fits.empty());
    CHECK(text.substr(text.find("no dialect")).find(mutation.said) != std::string::npos);
  }
}

TEST_CASE("identify muon: a wrong matrix is seen behind the eight that the search takes") {
  const auto step_of = [](std::size_t count, const auto& change) {
    RecordedStep step = step_named("torch-muon.torch.default.3.safetensors");
    while (step.tensors.size() < count) {
      StepTensor copy = step.tensors[1];
      step.tensors.push_back(std::move(copy));
    }
    change(step.tensors.back());
    return identify(step);
  };
  CHECK(has(step_of(10, [](StepTensor&) {}).fits, "torch-muon"));
  const auto decay_alone = [](StepTensor& t) {
    for (std::size_t i = 0; i < t.numel(); ++i)
      t.after.master[i] = t.before.master[i] * static_cast<float>(1 - 0.02 * 0.1);
  };
  CHECK_FALSE(step_of(10, decay_alone).named());
}

TEST_CASE("identify muon: a step from finite numbers to NaN is no dialect, whatever its matrix") {
  const auto named = [](std::size_t rows, std::size_t columns, float grad) {
    RecordedStep step = step_named("torch-muon.torch.default.3.safetensors");
    StepTensor t;
    t.rows = rows;
    t.columns = columns;
    t.grad.assign(rows * columns, grad);
    t.before.momentum_buffer.assign(rows * columns, 0);
    t.after.momentum_buffer.assign(rows * columns, static_cast<float>((1 - 0.95) * grad));
    t.before.master.assign(rows * columns, 1);
    t.after.master.assign(rows * columns, std::nanf(""));
    step.tensors.push_back(std::move(t));
    return identify(step).named();
  };
  CHECK_FALSE(named(130, 130, 1));    // too large to be evaluated
  CHECK_FALSE(named(8, 12, 1e-12F));  // near the floor
}

TEST_CASE("identify muon: muon-fsdp2 0.3.0 without Nesterov overwrites its momentum") {
  const RecordedStep step = step_named("wrong.muon-fsdp2.plain.3.safetensors");
  const Identification found = identify(step);
  CHECK(found.fits.empty());
  CHECK(found.muon->families.empty());
}

TEST_CASE(
    "identify muon: matrices have two dimensions of one shape, and a momentum before the first "
    "step may be missing") {
  RecordedStep step = step_named("torch-muon.torch.default.3.safetensors");
  step.tensors.front().after.master = step.tensors.front().before.master;
  CHECK_FALSE(identify(step).named());  // one matrix that did not move
  for (StepTensor& t : step.tensors) t.after = t.before;
  CHECK(identify(step).unchanged);
  for (StepTensor& t : step.tensors) {
    std::ranges::fill(t.grad, 0.0F);
    std::ranges::fill(t.before.momentum_buffer, 0.0F);
    std::ranges::fill(t.after.momentum_buffer, 0.0F);
    for (std::size_t i = 0; i < t.numel(); ++i)
      t.after.master[i] = t.before.master[i] * (1 - 0.02F * 0.1F);
  }
  CHECK_FALSE(identify(step).tells);  // its decay alone
  for (StepTensor& t : step.tensors) t.after.master.front() += 1;
  const Identification moved = identify(step);
  CHECK(moved.tells);
  CHECK(moved.fits.empty());
}

}  // namespace muon_dialects_test
