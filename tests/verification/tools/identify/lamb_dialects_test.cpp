// LAMB in identify: its dialects, the solved trust ratios, and the names of wrong ones.

#include <doctest.h>

#include <algorithm>
#include <cmath>

#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "tests/verification/tools/identify/made_step.hpp"
#include "verification/tools/identify/elements.hpp"
#include "verification/tools/identify/grid.hpp"
#include "verification/tools/identify/identify.hpp"

namespace lamb_dialects_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

DialectHyper lamb_hyper(double weight_decay = 0.3) {
  DialectHyper h;
  h.rule = UpdateRule::lamb;
  h.lr = 3e-3;
  h.t = 7;
  h.weight_decay = weight_decay;
  return h;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

double norm(Span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += double{x} * double{x};
  return std::sqrt(sum);
}

/// One tensor of a step, as a program with the contract's elements writes it.
struct Tensor {
  RecordedStep& step;
  StepTensor& tensor;
  std::vector<float> u;

  Tensor(RecordedStep& of, std::size_t index, DialectHyper hyper)
      : step(of), tensor(of.tensors[index]) {
    u = lamb_updates(find_dialect("contract")->lamb->master, hyper, before(tensor, "master"),
                     after(tensor, "exp_avg"), after(tensor, "exp_avg_sq"));
  }
  Tensor(RecordedStep& of, std::size_t index) : Tensor(of, index, of.hyper) {}

  /// lr * N_w / N_u of some of the elements: the ratio of the contract.
  double ratio(std::size_t begin, std::size_t end) const {
    const Span<const float> w = before(tensor, "master");
    const Span<const float> all = u;
    const double update = norm(all.subspan(begin, end - begin));
    return step.hyper.lr * norm(w.subspan(begin, end - begin)) / update;
  }
  double ratio() const { return ratio(0, u.size()); }

  void write(double factor, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      tensor.after.master[i] = lamb_master(LambWrite::product, before(tensor, "master")[i], u[i],
                                           static_cast<float>(factor), 0);
    }
  }
  void write(double factor) { write(factor, 0, u.size()); }
};

const std::vector<std::int64_t> sizes = {61, 129, 300, 2047};

RecordedStep contract_step(const DialectHyper& hyper = lamb_hyper()) {
  RecordedStep step = drawn_step(hyper, sizes, 5);
  take(step, *find_dialect("contract"));
  return step;
}

/// A step whose tensors have wrong ratios: no dialect fits, the formula does, and `origin` is named.
void expect_named(const std::string& origin, const std::function<void(Tensor&)>& harm) {
  CAPTURE(origin);
  RecordedStep step = contract_step();
  REQUIRE(has(identify(step).fits, "contract"));
  for (std::size_t k = 0; k < step.tensors.size(); ++k) {
    Tensor tensor(step, k);
    harm(tensor);
  }
  const Identification found = identify(step);
  const std::string text = identification_text(step, found);
  CAPTURE(text);
  CHECK(found.fits.empty());
  CHECK_FALSE(found.named());
  CHECK(found.buffers.back().kind == BufferFinding::Kind::formula);
  CHECK(found.ratios.size() >= step.tensors.size());
  CHECK(std::ranges::all_of(found.ratios,
                            [&](const RatioFinding& r) { return r.origin.find(origin) == 0; }));
  CHECK(text.find("trust ratio: " + origin) != std::string::npos);
}

}  // namespace

TEST_CASE("identify lamb: the dialect of the contract has the bits of the reference") {
  for (const double decay : {0.3, 0.0}) {
    RecordedStep step = contract_step(lamb_hyper(decay));
    const DialectHyper& h = step.hyper;
    OptimizerHyper hyper;
    hyper.rule = UpdateRule::lamb;
    hyper.lr = h.lr;
    hyper.beta1 = static_cast<float>(h.beta1);
    hyper.beta2 = static_cast<float>(h.beta2);
    hyper.eps = h.eps;
    hyper.weight_decay = h.weight_decay;
    const StepScalars scalars = reference::step_scalars(hyper, h.t, 0, 1);
    for (StepTensor& t : step.tensors) {
      StepState want = t.before;
      TrustNorms norms;
      reference::lamb_norms({}, {}, scalars, t.grad, want.master, want.exp_avg, want.exp_avg_sq,
                            norms);
      reference::lamb_update({}, {}, scalars, reference::lamb_trust_ratio(scalars, norms), t.grad,
                             want.master, want.exp_avg, want.exp_avg_sq);
      CHECK(t.after.master == want.master);
      CHECK(t.after.exp_avg == want.exp_avg);
      CHECK(t.after.exp_avg_sq == want.exp_avg_sq);
    }
  }
}

TEST_CASE("identify lamb: every dialect is named from its step") {
  int steps = 0;
  std::string last;
  for (const Dialect& dialect : all_dialects()) {
    // One member of a family is enough: the others differ in contractions.
    if (!dialect.lamb || family_of(dialect.name) == last) continue;
    last = family_of(dialect.name);
    for (const double decay : {0.3, 0.0}) {
      RecordedStep step = drawn_step(lamb_hyper(decay), sizes, 7);
      take(step, dialect);
      const Identification found = identify(step);
      CAPTURE(dialect.name);
      CAPTURE(identification_text(step, found));
      CHECK(found.named());
      CHECK(has(found.fits, dialect.name));
      CHECK(found.ratios.size() == sizes.size());
      if (decay != 0) {
        for (const RatioFinding& r : found.ratios) CHECK(r.of_its_norms());
      }
      ++steps;
    }
  }
  CHECK(steps == 20);
}

TEST_CASE("identify lamb: norms summed in fp32, in any order, are those of the tensor") {
  const Dialect& dialect = *find_dialect("timm-lamb-default");
  RecordedStep step = drawn_step(lamb_hyper(), sizes, 3);
  take(step, dialect);
  const LambMaster& form = dialect.lamb->master;
  for (StepTensor& t : step.tensors) {
    const std::vector<float> u = lamb_updates(form, step.hyper, before(t, "master"),
                                              after(t, "exp_avg"), after(t, "exp_avg_sq"));
    float weight = 0, update = 0;  // one after another, from the end
    for (std::size_t i = u.size(); i-- > 0;) {
      weight += before(t, "master")[i] * before(t, "master")[i];
      update += u[i] * u[i];
    }
    const float ratio = std::sqrt(weight) / std::sqrt(update);
    for (std::size_t i = 0; i < u.size(); ++i) {
      t.after.master[i] = lamb_master(form.write, before(t, "master")[i], u[i], ratio,
                                      static_cast<float>(step.hyper.lr));
    }
  }
  const Identification found = identify(step);
  CAPTURE(identification_text(step, found));
  CHECK(has(found.fits, "timm-lamb-default"));
  CHECK_FALSE(has(found.fits, "contract"));
  CHECK(std::ranges::all_of(found.ratios, &RatioFinding::of_its_norms));
}

TEST_CASE("identify lamb: wrong ratios have names") {
  expect_named("1: no ratio", [](Tensor& t) { t.write(1); });
  expect_named("norms of all tensors together", [](Tensor& t) {
    double weight = 0, update = 0;
    for (std::size_t k = 0; k < t.step.tensors.size(); ++k) {
      weight = std::hypot(weight, norm(before(t.step.tensors[k], "master")));
      update = std::hypot(update, norm(Tensor(t.step, k).u));
    }
    t.write(t.step.hyper.lr * weight / update);
  });
  expect_named("norm of the update without its decay", [](Tensor& t) {
    DialectHyper plain = t.step.hyper;
    plain.weight_decay = 0;
    const auto index = static_cast<std::size_t>(&t.tensor - t.step.tensors.data());
    t.write(Tensor(t.step, index, plain).ratio());
  });
  expect_named("norms of elements 0 to ",
               [](Tensor& t) { t.write(t.ratio(0, (t.u.size() + 3) / 4)); });
  expect_named("norms of these elements alone: of a shard", [](Tensor& t) {
    const std::size_t middle = t.u.size() / 3;
    t.write(t.ratio(0, middle), 0, middle);
    t.write(t.ratio(middle, t.u.size()), middle, t.u.size());
  });
  expect_named("norms of the tensor, without the learning rate",
               [](Tensor& t) { t.write(t.ratio() / t.step.hyper.lr); });
  expect_named("norms of the tensor, with the learning rate twice",
               [](Tensor& t) { t.write(t.ratio() * t.step.hyper.lr); });
  expect_named("norms of the tensor, inverted", [](Tensor& t) { t.write(1 / t.ratio()); });
  expect_named("squared norms of the tensor, without the roots",
               [](Tensor& t) { t.write(t.ratio() * t.ratio()); });
  expect_named("norm of the gradient instead of the update",
               [](Tensor& t) { t.write(norm(before(t.tensor, "master")) / norm(t.tensor.grad)); });
  expect_named("norm of the update without bias correction", [](Tensor& t) {
    const LambMaster biased{.denominator = Denominator::uncorrected, .step = LambStep::plain};
    const std::vector<float> u =
        lamb_updates(biased, t.step.hyper, before(t.tensor, "master"), after(t.tensor, "exp_avg"),
                     after(t.tensor, "exp_avg_sq"));
    t.write(norm(before(t.tensor, "master")) / norm(u));
  });
  expect_named("0: the tensor stays where it is", [](Tensor& t) { t.write(0); });
}

TEST_CASE("identify lamb: a ratio of another tensor is named with the tensor") {
  RecordedStep step = contract_step();
  std::vector<double> ratios;
  for (std::size_t k = 0; k < sizes.size(); ++k) ratios.push_back(Tensor(step, k).ratio());
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    Tensor tensor(step, k);
    tensor.write(ratios[(k + 1) % sizes.size()]);
  }
  const Identification found = identify(step);
  CHECK(found.fits.empty());
  CHECK(found.ratios[0].origin == "norms of tensor 1");
  CHECK(found.ratios[3].origin == "norms of tensor 0");
}

TEST_CASE("identify lamb: a tensor of zeros has the ratio 1") {
  RecordedStep step = drawn_step(lamb_hyper(), sizes, 5);
  std::ranges::fill(step.tensors[1].before.master, 0.0F);
  take(step, *find_dialect("contract"));
  const Identification found = identify(step);
  CHECK(has(found.fits, "contract"));
  CHECK(found.ratios[1].origin == "1, since a norm is 0");
  Tensor zeros(step, 1);
  zeros.write(0);
  const Identification stopped = identify(step);
  CHECK(stopped.fits.empty());
  CHECK(stopped.ratios[1].origin == "0: the tensor stays where it is");
}

TEST_CASE("identify lamb: only libraries with such an option leave the ratio out without decay") {
  for (const double decay : {0.0, 0.3}) {
    RecordedStep step = contract_step(lamb_hyper(decay));
    const Dialect& apex = *find_dialect("apex-fused-lamb:nnnn");
    take(step, apex);
    for (StepTensor& t : step.tensors) {
      const std::vector<float> u = lamb_updates(apex.lamb->master, step.hyper, before(t, "master"),
                                                after(t, "exp_avg"), after(t, "exp_avg_sq"));
      for (std::size_t i = 0; i < u.size(); ++i)
        t.after.master[i] = before(t, "master")[i] - static_cast<float>(step.hyper.lr) * u[i];
    }
    const Identification found = identify(step);
    CHECK(has(found.fits, "apex-fused-lamb:nnnn") == (decay == 0));
    CHECK_FALSE(has(found.fits, "deepspeed-fused-lamb:nnnn"));
  }
}

TEST_CASE("identify lamb: limits of a ratio belong to a library") {
  RecordedStep step = drawn_step(lamb_hyper(), sizes, 5);
  for (StepTensor& t : step.tensors) {
    for (float& x : t.before.master) x = x * 1e4F;
  }
  step.hyper.weight_decay = 1e-6;
  const auto expect = [&](const char* dialect, const char* origin) {
    take(step, *find_dialect(dialect));
    const Identification found = identify(step);
    CAPTURE(identification_text(step, found));
    CHECK(has(found.fits, dialect));
    CHECK_FALSE(has(found.fits, "apex-fused-lamb:nnnn"));
    CHECK(found.ratios[2].origin == origin);
  };
  expect("deepspeed-fused-lamb:nnnn", "limited to 0.01 .. 10");
  expect("torch-optimizer-lamb", "norm of the weights limited to 10");
}

}  // namespace lamb_dialects_test
