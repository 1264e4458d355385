// The implementations of dialects: against the contract, against torch.sqrt, and against states
// that libraries wrote.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "common/base/digest.hpp"
#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "tests/support/paths.hpp"
#include "tests/verification/tools/identify/made_step.hpp"
#include "verification/tools/identify/clip.hpp"
#include "verification/tools/identify/identify.hpp"
#include "verification/tools/identify/roots.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool same_bits(const StepState& a, const StepState& b) {
  return same_bits(a.master, b.master) && same_bits(a.exp_avg, b.exp_avg) &&
         same_bits(a.exp_avg_sq, b.exp_avg_sq) && same_bits(a.max_exp_avg_sq, b.max_exp_avg_sq) &&
         same_bits(a.momentum_buffer, b.momentum_buffer);
}

const std::filesystem::path recorded =
    std::filesystem::path(source_folder()) / "tests/verification/tools/identify/recorded_steps";

}  // namespace

TEST_CASE("the dialect of the contract has the bits of the reference") {
  int compared = 0;
  for (const DialectHyper& h : usual_hypers()) {
    OptimizerHyper hyper;
    hyper.rule = h.rule;
    hyper.lr = h.lr;
    hyper.beta1 = static_cast<float>(h.beta1);
    hyper.beta2 = static_cast<float>(h.beta2);
    hyper.eps = h.eps;
    hyper.weight_decay = h.weight_decay;
    hyper.bias_correction = h.bias_correction;
    hyper.amsgrad = h.amsgrad;
    hyper.maximize = h.maximize;
    hyper.momentum = h.momentum;
    hyper.dampening = h.dampening;
    hyper.nesterov = h.nesterov;
    for (const bool first : {false, true}) {
      RecordedStep step = drawn_step(h, {1, 61, 2049}, 3);
      step.hyper.t = first ? 1 : h.t + 1;
      step.is_first = first;
      take(step, *find_dialect("contract"));
      for (StepTensor& t : step.tensors) {
        StepState want = t.before;
        reference::update_by_rule(
            hyper, reference::step_scalars(hyper, step.hyper.t, 0, 1), 1, t.grad, want.master,
            {want.exp_avg, want.exp_avg_sq, want.max_exp_avg_sq, want.momentum_buffer});
        CHECK(same_bits(t.after, want));
        ++compared;
      }
    }
  }
  CHECK(compared == 78);
}

TEST_CASE("torch.sqrt as MKL computes it on AMD, over every mantissa") {
  // Recorded once from torch.sqrt of PyTorch 2.15.0: where it differs from the correctly rounded
  // root, and a digest of all.
  std::vector<float> roots;
  std::map<std::int32_t, std::int64_t> off;
  for (std::uint32_t bits = 0x3F800000; bits < 0x40800000; ++bits) {
    const auto x = std::bit_cast<float>(bits);
    roots.push_back(mkl_amd_root(x));
    ++off[std::bit_cast<std::int32_t>(roots.back()) - std::bit_cast<std::int32_t>(std::sqrt(x))];
  }
  CHECK(off == std::map<std::int32_t, std::int64_t>{{-1, 1239767}, {0, 13900284}, {1, 1637165}});
  CHECK(to_hex(raw_digest(roots.data(), static_cast<std::int64_t>(roots.size() * sizeof(float)))) ==
        "e32141f3845a8450592e15bcc07f867e");
  for (const float power : {0x1p-126F, 0x1p-24F, 0x1p-2F, 0x1p2F, 0x1p24F, 0x1p124F}) {
    for (const std::uint32_t bits : {0x3F800001U, 0x3FFFFFFFU, 0x4012345FU, 0x407FFFFFU}) {
      const auto x = std::bit_cast<float>(bits);
      CHECK(mkl_amd_root(x * power) == mkl_amd_root(x) * std::sqrt(power));
    }
  }
  CHECK(mkl_amd_root(0x1.fffffep127F) == std::sqrt(0x1.fffffep127F));
  CHECK(mkl_amd_root(0x1p-149F) == std::sqrt(0x1p-149F));
  CHECK(std::bit_cast<std::uint32_t>(mkl_amd_root(-0.0F)) == 0x80000000U);
  CHECK(std::isnan(mkl_amd_root(-1.0F)));
}

TEST_CASE(
    "steps that PyTorch, DeepSpeed, timm and torch_optimizer took are those of their dialects, in "
    "every bit") {
  int files = 0;
  std::set<std::string> dialects;
  for (const auto& entry : std::filesystem::directory_iterator(recorded)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string file = entry.path().filename().string();
    CAPTURE(file);
    const std::string name = file.substr(0, file.find('.'));
    RecordedStep step = read_step(entry.path().string());
    const Identification found = identify(step);
    CHECK(found.named());
    CHECK(std::ranges::find(found.fits, name) != found.fits.end());
    const std::vector<StepTensor> wrote = step.tensors;
    take(step, *find_dialect(name));
    for (std::size_t k = 0; k < wrote.size(); ++k) {
      // The order of a library's norms is unknown: identify judges master of lamb by its ratio.
      if (step.hyper.rule == UpdateRule::lamb) step.tensors[k].after.master = wrote[k].after.master;
      CHECK(same_bits(step.tensors[k].after, wrote[k].after));
    }
    dialects.insert(name);
    ++files;
  }
  CHECK(files == 43);
  std::set<std::string> wanted;
  for (const Dialect& d : all_dialects()) {
    if (d.evidence == Evidence::recorded && !d.muon) wanted.insert(d.name);
  }
  CHECK(dialects == wanted);
}

TEST_CASE("DeepSpeed and PyTorch fused cannot be split at any element") {
  for (const char* name : {"torch-cpu-fused", "deepspeed-cpu-adam-avx512"}) {
    RecordedStep whole = drawn_step(usual_hypers().front(), {2049}, 5);
    RecordedStep cut = whole;
    cut.tensors = {whole.tensors[0], whole.tensors[0]};
    const auto keep = [](StepTensor& t, std::size_t from, std::size_t to) {
      for (std::vector<float>* v :
           {&t.grad, &t.before.master, &t.before.exp_avg, &t.before.exp_avg_sq}) {
        *v = std::vector<float>(v->begin() + static_cast<std::ptrdiff_t>(from),
                                v->begin() + static_cast<std::ptrdiff_t>(to));
      }
    };
    const auto joined = [&](std::size_t at) {
      RecordedStep parts = cut;
      keep(parts.tensors[0], 0, at);
      keep(parts.tensors[1], at, 2049);
      take(parts, *find_dialect(name));
      std::vector<float> v = parts.tensors[0].after.exp_avg_sq;
      const std::vector<float>& rest = parts.tensors[1].after.exp_avg_sq;
      v.insert(v.end(), rest.begin(), rest.end());
      return v;
    };
    take(whole, *find_dialect(name));
    CHECK(same_bits(whole.tensors[0].after.exp_avg_sq, joined(1024)));
    CHECK_FALSE(same_bits(whole.tensors[0].after.exp_avg_sq, joined(1031)));
  }
}

TEST_CASE("clip factors") {
  // By hand: 1/(2 + 1e-6) in fp32 is 0x1.fffff0p-2 (halfway cases aside), times fp32(0.3).
  const float inverse = 1 / (2.0F + 1e-6F);
  CHECK(clip_factor(ClipForm::torch, 2.0F, 0.3, 1) == inverse * 0.3F);
  CHECK(clip_factor(ClipForm::torch, 0.1F, 0.3, 1) == 1.0F);
  CHECK(std::isnan(clip_factor(ClipForm::torch, std::nanf(""), 0.3, 1)));
  CHECK(clip_factor(ClipForm::megatron, 2.0F, 0.3, 1) == static_cast<float>(0.3 / (2.0 + 1e-6)));
  CHECK(clip_factor(ClipForm::megatron, 0.1F, 0.3, 1) == 1.0F);
  CHECK(clip_factor(ClipForm::deepspeed, 4.0F, 1.0, 1024) ==
        0x1p-10F);  // not clipped, unscaled all the same
  CHECK(clip_factor(ClipForm::deepspeed, 4096.0F, 1.0, 1024) == 1 / ((4.0F + 1e-6F) * 1024));
  int apart = 0;
  for (int i = 1; i <= 1000; ++i) {
    const float norm = 0.3F + 0.001F * static_cast<float>(i);
    apart +=
        clip_factor(ClipForm::torch, norm, 0.3, 1) != clip_factor(ClipForm::megatron, norm, 0.3, 1)
            ? 1
            : 0;
  }
  CHECK(apart > 100);
}

TEST_CASE("loss scalers: DeepSpeed's waits one step more") {
  const std::vector<bool> steps = {false, false, false, false, true,
                                   false, false, false, false, false};
  CHECK(loss_scales(scaler_dialects()[0], 10, 2, steps) ==
        std::vector<int>{10, 11, 11, 12, 11, 11, 12, 12, 13, 13});
  CHECK(loss_scales(scaler_dialects()[1], 10, 2, steps) ==
        std::vector<int>{10, 10, 11, 11, 10, 10, 10, 11, 11, 12});
}
