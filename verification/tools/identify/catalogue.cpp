#include <algorithm>

#include "verification/tools/identify/dialect.hpp"

namespace zeroproof::verification {
namespace {

Dialect contract() {
  Dialect d;
  d.name = "contract";
  d.library = "zeroproof";
  d.version = "numeric contract 2";
  d.build = "any";
  d.evidence = Evidence::proved;
  d.note =
      "R5 and R6 of common/CONTRACT.md: no contraction, no tail; zeroproof verify compares both "
      "implementations with "
      "it.";
  d.without_bias_correction = true;
  AdamFormula f;
  f.betas = Betas::fp32;
  f.second = f.second_tail = SecondMoment::squared;
  f.maximum = Maximum::replaces_nan;
  f.master = {Corrections::widened, Root::rounded, Denominator::quotient, Decay::added,
              Write::quotient};
  d.adam = f;
  d.sgd = SgdFormula{};
  return d;
}

/// Common properties of all dialects of PyTorch.
Dialect torch(std::string name, std::string build, std::string note) {
  Dialect d;
  d.name = std::move(name);
  d.library = "PyTorch";
  d.version = "2.15.0";
  d.build = std::move(build);
  d.evidence = Evidence::recorded;
  d.note = std::move(note);
  return d;
}

constexpr const char* vector_capability = "CPU, capability AVX2 or AVX512 (the same bits)";
constexpr const char* default_capability = "CPU, ATEN_CPU_CAPABILITY=default";
constexpr const char* mkl_note =
    "torch.sqrt is MKL's, faithful but not correctly rounded; known for AMD processors, where it "
    "begins with "
    "RSQRTPS.";

AdamFormula torch_vector() {
  AdamFormula f;
  f.coupled_fused = true;
  f.first = f.first_tail = FirstMoment::lerp_fused;
  f.second = f.second_tail = SecondMoment::scaled_right;
  return f;
}

AdamFormula torch_default() {
  AdamFormula f;
  f.first = f.first_tail = FirstMoment::lerp;
  return f;
}

void add_torch(std::vector<Dialect>& all) {
  Dialect d = torch("torch-cpu-single", vector_capability,
                    std::string("single and foreach give the same bits. ") + mkl_note);
  d.adam = torch_vector();
  d.adam->master.root = Root::mkl_amd;
  all.push_back(d);

  d = torch("torch-cpu-fused", vector_capability,
            "fused=True; the root is correctly rounded, and the last n mod 8 elements of a tensor "
            "are scalar "
            "code.");
  d.tail_width = 8;
  d.adam = torch_vector();
  d.adam->second_tail = SecondMoment::scaled_left;
  all.push_back(d);

  d = torch("torch-cpu-single-default", default_capability,
            std::string("single and foreach, nothing contracted, no tail. ") + mkl_note);
  d.adam = torch_default();
  d.adam->master.root = Root::mkl_amd;
  all.push_back(d);

  d = torch("torch-cpu-fused-default", default_capability,
            "fused=True, nothing contracted, no tail; the root is correctly rounded.");
  d.adam = torch_default();
  all.push_back(d);

  d = torch("torch-sgd", vector_capability, "single and foreach give the same bits.");
  d.sgd = SgdFormula{true, Contraction::right, Contraction::right, true, true};
  all.push_back(d);

  d = torch("torch-sgd-fused", vector_capability,
            "fused=True; the last n mod 8 elements of a tensor are scalar code.");
  d.tail_width = 8;
  d.sgd = SgdFormula{true, Contraction::right, Contraction::left, true, true};
  all.push_back(d);

  d = torch("torch-sgd-default", default_capability,
            "single, foreach and fused: nothing contracted, no tail.");
  d.sgd = SgdFormula{};
  all.push_back(d);
}

void add_deepspeed(std::vector<Dialect>& all) {
  Dialect d;
  d.library = "DeepSpeed";
  d.version = "0.19.8";
  d.evidence = Evidence::read;
  d.amsgrad = false;
  d.without_bias_correction = true;
  AdamFormula f;
  f.coupled_fused = true;
  f.betas = Betas::fp32;
  f.first = FirstMoment::right;
  f.first_tail = FirstMoment::left;
  f.second = SecondMoment::squared_right;
  f.second_tail = SecondMoment::squared_left;
  f.master = {Corrections::running, Root::rounded, Denominator::reciprocal_fused,
              Decay::before_fused, Write::quotient_fused};
  d.adam = f;
  const std::string powers =
      "After a step that does not follow the last one it uses pow for its running products.";
  struct Width {
    const char *name, *build;
    int tail;
  };
  for (const Width& width :
       {Width{"deepspeed-cpu-adam-avx512", "g++ 12 -O3 -march=native with AVX-512", 16},
        Width{"deepspeed-cpu-adam-avx2", "g++ 12 -O3 -march=native with AVX2", 8}}) {
    d.name = width.name;
    d.build = width.build;
    d.tail_width = width.tail;
    d.note = "CPUAdam. The last n mod " + std::to_string(width.tail) +
             " elements are scalar code, contracted by g++. " + powers;
    d.evidence = width.tail == 16 ? Evidence::recorded : Evidence::read;
    all.push_back(d);
  }
  d.name = "deepspeed-cpu-adam-scalar";
  d.build = "g++ 12 -O3 -march=native, neither AVX2 nor AVX-512 code";
  d.tail_width = 0;
  d.note = "CPUAdam. Every element is scalar code, contracted by g++. " + powers;
  d.adam->first = d.adam->first_tail;
  d.adam->second = d.adam->second_tail;
  all.push_back(d);
}

constexpr Contraction contractions[] = {Contraction::none, Contraction::left, Contraction::right};
char letter(Contraction contraction) { return "nlr"[static_cast<int>(contraction)]; }

/// nvcc decides which product of a sum is contracted: a member for every decision. The letters are
/// those of exp_avg, exp_avg_sq, the decay (u = q + wd*p, and g + wd*p) and the parameter's own p -
/// lr*u: none, left or right product.
void add_apex(std::vector<Dialect>& all) {
  Dialect d;
  d.library = "apex, TransformerEngine";
  d.evidence = Evidence::read;
  d.amsgrad = false;
  d.without_bias_correction = true;
  for (const Contraction first : contractions) {
    for (const Contraction second : contractions) {
      for (const bool decay : {false, true}) {
        for (const bool write : {false, true}) {
          d.name = std::string("apex-fused-adam:") + letter(first) + letter(second) +
                   (decay ? 'r' : 'n') + (write ? 'r' : 'n');
          d.build = "CUDA, FusedAdam; nvcc contracts as the letters say";
          d.note =
              "A candidate. Of a kernel of this form nvcc 13.0 (-O3, sm_90) makes rrrr for adamw "
              "and llrr "
              "for adam; "
              "the libraries were not run.";
          AdamFormula f;
          f.coupled_fused = decay;
          f.betas = Betas::fp32;
          f.first = f.first_tail = first == Contraction::none   ? FirstMoment::plain
                                   : first == Contraction::left ? FirstMoment::left
                                                                : FirstMoment::right;
          f.second = f.second_tail = second == Contraction::none   ? SecondMoment::scaled
                                     : second == Contraction::left ? SecondMoment::scaled_left
                                                                   : SecondMoment::scaled_right;
          f.master = {Corrections::stored, Root::rounded, Denominator::inside,
                      decay ? Decay::in_rate_fused : Decay::in_rate,
                      write ? Write::corrected_fused : Write::corrected};
          d.adam = f;
          all.push_back(d);
        }
      }
    }
  }
}

}  // namespace

std::string_view name(Evidence evidence) {
  constexpr std::string_view names[] = {"proved", "recorded", "compared", "read"};
  return names[static_cast<int>(evidence)];
}

bool Dialect::takes(const DialectHyper& hyper) const {
  if (hyper.rule == UpdateRule::sgd) return sgd.has_value();
  if (hyper.rule != UpdateRule::adamw && hyper.rule != UpdateRule::adam) return false;
  return adam.has_value() && (amsgrad || !hyper.amsgrad) &&
         (without_bias_correction || hyper.bias_correction);
}

const std::vector<Dialect>& all_dialects() {
  static const std::vector<Dialect> dialects = [] {
    std::vector<Dialect> all = {contract()};
    add_torch(all);
    add_deepspeed(all);
    add_apex(all);
    return all;
  }();
  return dialects;
}

const Dialect* find_dialect(std::string_view name) {
  if (name == "torch-cpu-foreach") name = "torch-cpu-single";
  if (name == "torch-cpu-foreach-default") name = "torch-cpu-single-default";
  const auto found = std::ranges::find(all_dialects(), name, &Dialect::name);
  return found == all_dialects().end() ? nullptr : &*found;
}

std::string family_of(const std::string& name) { return name.substr(0, name.find(':')); }

}  // namespace zeroproof::verification
