// identify: correct for every dialect, and no dialect for optimizers of no library.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "common/base/float_formats.hpp"
#include "tests/verification/tools/identify/made_step.hpp"
#include "verification/tools/identify/elements.hpp"
#include "verification/tools/identify/identify.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

const std::vector<std::int64_t> odd_sizes = {1, 7, 16, 61, 129, 2047};

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool same_results(const RecordedStep& a, const RecordedStep& b) {
  const auto equal = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::ranges::equal(
        x, y, {}, [](float f) { return std::bit_cast<std::uint32_t>(f); },
        [](float f) { return std::bit_cast<std::uint32_t>(f); });
  };
  for (std::size_t k = 0; k < a.tensors.size(); ++k) {
    const StepState& x = a.tensors[k].after;
    const StepState& y = b.tensors[k].after;
    if (!equal(x.master, y.master) || !equal(x.exp_avg, y.exp_avg) ||
        !equal(x.exp_avg_sq, y.exp_avg_sq) || !equal(x.max_exp_avg_sq, y.max_exp_avg_sq) ||
        !equal(x.momentum_buffer, y.momentum_buffer)) {
      return false;
    }
  }
  return true;
}

/// A step of torch-cpu-fused, then edited.
Identification of_wrong(const std::function<void(RecordedStep&)>& harm, std::int64_t t = 7) {
  DialectHyper h = usual_hypers().front();
  h.t = t;
  RecordedStep step = drawn_step(h, odd_sizes, 11);
  take(step, *find_dialect("torch-cpu-fused"));
  REQUIRE(identify(step).named());
  harm(step);
  return identify(step);
}

const BufferFinding& buffer(const Identification& found, const std::string& name) {
  return *std::ranges::find(found.buffers, name, &BufferFinding::buffer);
}

/// Recomputes every element of master from the stored moments.
void rewrite_master(RecordedStep& step,
                    const std::function<float(float p, float m, float v)>& rule) {
  for (StepTensor& t : step.tensors) {
    for (std::size_t i = 0; i < t.numel(); ++i) {
      t.after.master[i] = rule(t.before.master[i], t.after.exp_avg[i], t.after.exp_avg_sq[i]);
    }
  }
}

}  // namespace

TEST_CASE(
    "every dialect is named from its step, and only dialects that give the same bits with it") {
  int steps = 0;
  for (const DialectHyper& h : usual_hypers()) {
    const RecordedStep drawn = drawn_step(h, odd_sizes, 7);
    std::vector<std::pair<const Dialect*, RecordedStep>> taken;
    for (const Dialect& dialect : all_dialects()) {
      if (!dialect.takes(h)) continue;
      taken.emplace_back(&dialect, drawn);
      take(taken.back().second, dialect);
    }
    for (const auto& [dialect, step] : taken) {
      CAPTURE(dialect->name);
      CAPTURE(identification_text(step, identify(step)));
      const Identification found = identify(step);
      CHECK(found.named());
      CHECK(has(found.fits, dialect->name));
      for (const auto& [other, its_step] : taken)
        CHECK(has(found.fits, other->name) == same_results(step, its_step));
      ++steps;
    }
  }
  CHECK(steps > 200);
}

TEST_CASE("deviations from formulas are located: in the last n mod 8, or n mod 16") {
  DialectHyper h = usual_hypers().front();
  for (const auto& [name, width] : {std::pair{"torch-cpu-fused", 8},
                                    {"deepspeed-cpu-adam-avx2", 8},
                                    {"deepspeed-cpu-adam-avx512", 16}}) {
    RecordedStep step = drawn_step(h, odd_sizes, 2);
    take(step, *find_dialect(name));
    const Identification found = identify(step);
    CHECK(found.fits == std::vector<std::string>{name});
    CHECK(buffer(found, "exp_avg_sq").kind == BufferFinding::Kind::two);
    CHECK(buffer(found, "exp_avg_sq").tail_width == width);
    CHECK(buffer(found, "master").kind == BufferFinding::Kind::formula);
  }
}

TEST_CASE("wrong optimizers are no dialect, and the buffer is named") {
  const MasterScalars s = master_scalars(usual_hypers().front(), Corrections::fp64);
  const Identification inside = of_wrong([&](RecordedStep& step) {
    rewrite_master(step, [&](float p, float m, float v) {
      const float d = std::sqrt(v / s.correction2 + s.eps);
      return p * s.one_less_decay + (-s.step_size * m) / d;
    });
  });
  CHECK_FALSE(inside.named());
  CHECK_FALSE(inside.legal());
  CHECK(inside.wrong == std::vector<std::string>{"eps were inside the square root"});
  CHECK(buffer(inside, "master").kind == BufferFinding::Kind::none);
  CHECK(buffer(inside, "exp_avg").kind == BufferFinding::Kind::formula);
  CHECK(inside.differences.size() == 1);

  const Identification uncorrected = of_wrong([&](RecordedStep& step) {
    rewrite_master(step, [&](float p, float m, float v) {
      return p * s.one_less_decay + (-s.lr * m) / (std::sqrt(v) + s.eps);
    });
  });
  CHECK_FALSE(uncorrected.named());
  CHECK(uncorrected.wrong == std::vector<std::string>{"there were no bias correction"});
  CHECK(buffer(uncorrected, "master").kind == BufferFinding::Kind::none);

  const Identification narrow = of_wrong([&](RecordedStep& step) {
    for (StepTensor& t : step.tensors) {
      for (std::size_t i = 0; i < t.numel(); ++i) {  // bf16(1 - 0.9) is 0.10009765625
        t.after.exp_avg[i] = 0.9F * t.before.exp_avg[i] + 0.10009765625F * t.grad[i];
      }
    }
  });
  CHECK_FALSE(narrow.named());
  CHECK(buffer(narrow, "exp_avg").kind == BufferFinding::Kind::none);

  const Identification stale = of_wrong([&](RecordedStep& step) {
    for (StepTensor& t : step.tensors) t.after.exp_avg_sq = t.before.exp_avg_sq;
  });
  CHECK_FALSE(stale.named());
  CHECK_FALSE(stale.legal());
  CHECK(buffer(stale, "exp_avg_sq").kind == BufferFinding::Kind::none);

  const Identification short_by_seven = of_wrong([&](RecordedStep& step) {
    StepTensor& t = step.tensors.back();
    for (std::size_t i = t.numel() - 7; i < t.numel(); ++i) t.after.master[i] = t.before.master[i];
  });
  CHECK_FALSE(short_by_seven.named());
  CHECK_FALSE(short_by_seven.legal());
  CHECK(short_by_seven.wrong.empty());
  CHECK(buffer(short_by_seven, "master").kind == BufferFinding::Kind::leaves);
  CHECK(buffer(short_by_seven, "master").tail_width == 8);
  CHECK(buffer(short_by_seven, "master").unwritten);

  const Identification one_bit = of_wrong([&](RecordedStep& step) {
    float& x = step.tensors[5].after.exp_avg[1000];
    x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1U);
  });
  CHECK_FALSE(one_bit.named());
  CHECK(buffer(one_bit, "exp_avg").kind == BufferFinding::Kind::leaves);
  CHECK(buffer(one_bit, "exp_avg").best.all() == 1);
  CHECK_FALSE(buffer(one_bit, "exp_avg").unwritten);
}

TEST_CASE("a legal order without a name is right, with either rounding of the betas") {
  for (const bool rounded : {false, true}) {
    CAPTURE(rounded);
    const Identification found = of_wrong([&](RecordedStep& step) {
      const DialectHyper& h = step.hyper;
      const double beta1 = rounded ? static_cast<float>(h.beta1) : h.beta1;
      const double beta2 = rounded ? static_cast<float>(h.beta2) : h.beta2;
      const double t = static_cast<double>(h.t);
      const auto c1 = static_cast<float>(1 - std::pow(beta1, t));
      const auto c2 = static_cast<float>(1 - std::pow(beta2, t));
      const auto w1 = static_cast<float>(1 - beta1), w2 = static_cast<float>(1 - beta2);
      for (StepTensor& x : step.tensors) {
        for (std::size_t i = 0; i < x.numel(); ++i) {
          const float g = x.grad[i], p = x.before.master[i];
          const float m = x.before.exp_avg[i] - w1 * (x.before.exp_avg[i] - g);
          const float v = x.before.exp_avg_sq[i] + w2 * (g * g - x.before.exp_avg_sq[i]);
          x.after.exp_avg[i] = m;
          x.after.exp_avg_sq[i] = v;
          const float u = (m / c1) / (std::sqrt(v / c2) + static_cast<float>(h.eps));
          const float decayed =
              p - static_cast<float>(h.lr) * (static_cast<float>(h.weight_decay) * p);
          x.after.master[i] = decayed - static_cast<float>(h.lr) * u;
        }
      }
    });
    CHECK_FALSE(found.named());
    CHECK(found.legal());
    CHECK(found.judged());
    CHECK(*found.share > 0.1);
    CHECK(found.wrong.empty());
    CHECK(identification_line(found).find("right, without a name: 0.") == 0);
  }
}

TEST_CASE("a step whose settings have no bound has no share of it") {
  DialectHyper h = usual_hypers().front();
  h.eps = 0;
  RecordedStep step = drawn_step(h, odd_sizes, 11);
  take(step, *find_dialect("torch-cpu-fused"));
  CHECK(identify(step).named());
  for (StepTensor& t : step.tensors) t.after.master = t.before.master;
  const Identification found = identify(step);
  CHECK_FALSE(found.named());
  CHECK_FALSE(found.share.has_value());
  CHECK(found.judged());
  CHECK(identification_line(found).find("none; nearest: ") == 0);
}

TEST_CASE("a skipped step and a state of 16 bits show nothing") {
  const Identification skipped = of_wrong([](RecordedStep& step) {
    for (StepTensor& t : step.tensors) t.after = t.before;
  });
  CHECK(skipped.unchanged);
  CHECK_FALSE(skipped.judged());
  CHECK(identification_line(skipped) == "nothing changed");

  for (const std::string format : {"bf16", "fp16"}) {
    const auto narrowed = [&](float x) {
      return format == "bf16" ? to_float(to_bf16(x)) : to_float(to_fp16(x));
    };
    const Identification narrow = of_wrong([&](RecordedStep& step) {
      for (StepTensor& t : step.tensors) {
        for (std::vector<float>* v : {&t.after.master, &t.after.exp_avg, &t.after.exp_avg_sq,
                                      &t.before.master, &t.before.exp_avg, &t.before.exp_avg_sq})
          std::ranges::transform(*v, v->begin(), narrowed);
      }
    });
    CHECK(narrow.bits16 == format);
    CHECK_FALSE(narrow.judged());
    CHECK(identification_line(narrow) ==
          "every value is a " + format +
              " number: the state has 16 bits, and no such dialect is known");
  }
}

TEST_CASE("results of zeros, and results that no bound judges, are not right") {
  const Identification zeros = of_wrong([](RecordedStep& step) {
    for (StepTensor& t : step.tensors) {
      for (std::vector<float>* v : {&t.after.master, &t.after.exp_avg, &t.after.exp_avg_sq})
        std::ranges::fill(*v, 0.0F);
    }
  });
  CHECK(zeros.bits16.empty());
  CHECK(zeros.judged());
  CHECK_FALSE(zeros.legal());
  const Identification huge = of_wrong([](RecordedStep& step) {
    for (StepTensor& t : step.tensors) {
      std::ranges::fill(t.grad, 1e20F);
      std::ranges::fill(t.after.exp_avg_sq, std::numeric_limits<float>::infinity());
    }
  });
  CHECK_FALSE(huge.legal());
}

TEST_CASE("a step of zeros identifies no dialect") {
  RecordedStep step = drawn_step(usual_hypers().front(), {33}, 1);
  StepTensor& t = step.tensors[0];
  for (std::vector<float>* v :
       {&t.grad, &t.before.master, &t.before.exp_avg, &t.before.exp_avg_sq}) {
    std::ranges::fill(*v, 0.0F);
  }
  take(step, *find_dialect("contract"));
  const Identification found = identify(step);
  CHECK_FALSE(found.tells);
  CHECK_FALSE(found.named());
}

TEST_CASE("a NaN is one value, with any bits") {
  RecordedStep step = drawn_step(usual_hypers().front(), {129}, 4);
  step.tensors[0].grad[5] = std::bit_cast<float>(0x7FC12345U);
  take(step, *find_dialect("torch-cpu-fused"));
  step.tensors[0].after.exp_avg[5] = std::bit_cast<float>(0xFFC00001U);
  CHECK(identify(step).fits == std::vector<std::string>{"torch-cpu-fused"});
}

TEST_CASE("names of a family are joined") {
  CHECK(shown_names({"contract", "apex-fused-adam:nnnn", "apex-fused-adam:nnrn", "x"}) ==
        std::vector<std::string>{"contract", "apex-fused-adam:nn*n", "x"});
}
