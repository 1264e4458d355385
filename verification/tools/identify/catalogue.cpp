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
  d.lamb = LambFormula{.moments = f,
                       .master = {Corrections::widened, Root::rounded, Denominator::quotient,
                                  LambStep::scaled, false, LambWrite::product},
                       .ratio = {.exact = true}};
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
/// lr*u (lamb: p - k*u): none, left or right product.
void add_contractions(std::vector<Dialect>& all, Dialect d,
                      void (*set_formula)(Dialect&, const AdamFormula&, bool decay, bool write)) {
  const std::string family = d.name;
  for (const Contraction first : contractions) {
    for (const Contraction second : contractions) {
      for (const bool decay : {false, true}) {
        for (const bool write : {false, true}) {
          d.name = family + ':' + letter(first) + letter(second) + (decay ? 'r' : 'n') +
                   (write ? 'r' : 'n');
          AdamFormula f;
          f.coupled_fused = decay;
          f.betas = Betas::fp32;
          f.first = f.first_tail = first == Contraction::none   ? FirstMoment::plain
                                   : first == Contraction::left ? FirstMoment::left
                                                                : FirstMoment::right;
          f.second = f.second_tail = second == Contraction::none   ? SecondMoment::scaled
                                     : second == Contraction::left ? SecondMoment::scaled_left
                                                                   : SecondMoment::scaled_right;
          set_formula(d, f, decay, write);
          all.push_back(d);
        }
      }
    }
  }
}

void add_apex(std::vector<Dialect>& all) {
  Dialect d;
  d.name = "apex-fused-adam";
  d.library = "apex, TransformerEngine";
  d.build = "CUDA, FusedAdam; nvcc contracts as the letters say";
  d.evidence = Evidence::read;
  d.note =
      "A candidate. Of a kernel of this form nvcc 13.0 (-O3, sm_90) makes rrrr for adamw "
      "and llrr "
      "for adam; "
      "the libraries were not run.";
  d.amsgrad = false;
  d.without_bias_correction = true;
  add_contractions(all, d, [](Dialect& member, const AdamFormula& f, bool decay, bool write) {
    member.adam = f;
    member.adam->master = {Corrections::stored, Root::rounded, Denominator::inside,
                           decay ? Decay::in_rate_fused : Decay::in_rate,
                           write ? Write::corrected_fused : Write::corrected};
  });
}

/// Both kernels have one source form; they differ in their ratios.
void set_fused_lamb(Dialect& d, const AdamFormula& f, bool decay, bool write) {
  d.lamb->moments = f;
  d.lamb->master = {
      Corrections::stored, Root::rounded, Denominator::inside,
      LambStep::corrected, decay,         write ? LambWrite::product_fused : LambWrite::product};
}

void add_fused_lamb(std::vector<Dialect>& all) {
  Dialect d;
  d.evidence = Evidence::read;
  d.amsgrad = false;
  d.without_bias_correction = true;
  d.name = "apex-fused-lamb";
  d.library = "apex";
  d.build = "CUDA, FusedLAMB (csrc/multi_tensor_lamb.cu); nvcc contracts as the letters say";
  d.note =
      "A candidate, for adam_w_mode and grad_averaging, and a gradient that max_grad_norm does not "
      "change. The kernel writes u over the gradient: record it before. Without decay the ratio is "
      "1, or with use_nvlamb that of the norms.";
  d.lamb = LambFormula{.ratio = {.optional = true}};
  add_contractions(all, d, set_fused_lamb);

  d.name = "deepspeed-fused-lamb";
  d.library = "DeepSpeed";
  d.build = "CUDA, FusedLamb (csrc/lamb); nvcc contracts as the letters say";
  d.note =
      "A candidate, of the kernel that corrects the bias of the moments, with eps outside the root "
      "and the default limits of the ratio.";
  d.lamb = LambFormula{.ratio = {.least = 0.01, .most = 10}};
  add_contractions(all, d, set_fused_lamb);
}

/// LAMB as operations of PyTorch on the CPU: the moments are those of its optimizers.
void add_torch_lamb(std::vector<Dialect>& all) {
  for (const bool vectors : {true, false}) {
    const std::string suffix = vectors ? "" : "-default";
    Dialect d = torch("", vectors ? vector_capability : default_capability, mkl_note);
    d.amsgrad = false;
    d.without_bias_correction = true;
    LambFormula f{
        .moments = vectors ? torch_vector() : torch_default(),
        .master = {Corrections::fp64, Root::mkl_amd, Denominator::quotient, LambStep::corrected,
                   vectors, vectors ? LambWrite::rate_fused : LambWrite::rate},
        .ratio = {.optional = true, .clip = true}};
    d.name = "timm-lamb" + suffix;
    d.library = "timm";
    d.version = "1.0.31";
    d.note = std::string(
                 "Lamb, foreach=False, for a gradient that max_grad_norm does not change. "
                 "Without decay the ratio is 1, or with always_adapt that of the norms; "
                 "trust_clip limits it to 1. ") +
             mkl_note;
    d.lamb = f;
    all.push_back(d);

    d.name = "timm-lamb-foreach" + suffix;
    d.note = std::string(
                 "Lamb, foreach=True, otherwise as timm-lamb: bias corrections are folded "
                 "into scalars. ") +
             mkl_note;
    const LambWrite write = vectors ? LambWrite::product_fused : LambWrite::product;
    f.master = {Corrections::fp64, Root::mkl_amd, Denominator::folded,
                LambStep::plain,   vectors,       write};
    d.lamb = f;
    all.push_back(d);

    d.name = "torch-optimizer-lamb" + suffix;
    d.library = "torch_optimizer";
    d.version = "0.3.0";
    d.note = std::string(
                 "Lamb, as in pytorch-lamb: N_w is limited to clamp_value (10), and the "
                 "norm is that of an update with its bias. bias_correction is debias. ") +
             mkl_note;
    f.moments.first = f.moments.first_tail = vectors ? FirstMoment::right : FirstMoment::plain;
    f.master.denominator = Denominator::uncorrected;
    f.ratio = {.most_weight = 10};
    d.lamb = f;
    all.push_back(d);
  }
}

void add_tensorflow_lamb(std::vector<Dialect>& all) {
  Dialect d;
  d.name = "tensorflow-addons-lamb";
  d.library = "TensorFlow Addons";
  d.build = "one kernel for each operation, without XLA";
  d.evidence = Evidence::read;
  d.note =
      "LAMB, for a variable that is not excluded from decay or layer adaptation; pow is the C "
      "library's, TensorFlow's may differ.";
  d.amsgrad = false;
  AdamFormula f;
  f.betas = Betas::fp32;
  f.second = f.second_tail = SecondMoment::squared;
  d.lamb = LambFormula{.moments = f,
                       .master = {Corrections::single, Root::rounded, Denominator::inside,
                                  LambStep::corrected, false, LambWrite::product},
                       .ratio = {}};
  all.push_back(d);
}

/// Common properties of all dialects of Muon.
Dialect muon(std::string name, std::string library, std::string version, Evidence evidence,
             std::string note, MuonFormula formula) {
  Dialect d;
  d.name = std::move(name);
  d.library = std::move(library);
  d.version = std::move(version);
  d.build = "CPU; elsewhere the same choices, with another order of sums";
  d.evidence = evidence;
  d.note = std::move(note);
  d.muon = std::move(formula);
  return d;
}

const std::vector<NewtonSchulzSet>& every_set() {
  static const std::vector<NewtonSchulzSet> sets = [] {
    std::vector<NewtonSchulzSet> all;
    for (const NewtonSchulzSetTraits& traits : newton_schulz_sets) all.push_back(traits.set);
    return all;
  }();
  return sets;
}

void add_muon(std::vector<Dialect>& all) {
  all.front().muon = {
      .sets = every_set(),
      .input = MuonInput::bf16_last,
      .scales = {{MuonScale::original},
                 {MuonScale::none},
                 {MuonScale::spectral},
                 {MuonScale::match_rms_adamw},
                 {MuonScale::unit_rms_norm}},
      .write = MuonWrite::in_sum};  // of R28 with its default family, form and factors

  const std::vector<MuonDirection> only_nesterov = {MuonDirection::nesterov};
  const MuonFormula torch = {
      .scales = {{MuonScale::original}, {MuonScale::match_rms_adamw}, {MuonScale::unit_rms_norm}}};
  all.push_back(muon(
      "torch-muon", "PyTorch, torchtitan", "2.15.0, 0.3.0", Evidence::recorded,
      "torch.optim.Muon, with adjust_lr_fn original, match_rms_adamw or spectral_unclamped, and "
      "torchtitan's dist_muon of whole matrices.",
      torch));

  MuonFormula jordan;
  jordan.directions = only_nesterov;
  jordan.products = MuonProducts::scaled_factor;
  jordan.floor = NormFloor::add;
  jordan.write = MuonWrite::rounded_update;
  all.push_back(
      muon("keller-jordan-muon", "muon-optimizer", "0.1.0", Evidence::recorded,
           "Nesterov always. The scale is multiplied into the bf16 matrix, which rounds it again.",
           jordan));

  MuonFormula emerging;
  emerging.sets = every_set();
  emerging.input = MuonInput::bf16_last;
  emerging.scales = {{MuonScale::spectral}, {MuonScale::original}, {MuonScale::unit_rms_norm}};
  emerging.free_factor = true;
  emerging.write = MuonWrite::scaled_update;
  all.push_back(muon("emerging-muon", "Emerging-Optimizers, Megatron-LM", "0.3.0",
                     Evidence::recorded,
                     "fp32_matmul_prec medium, weight_decay_method decoupled. scale_mode "
                     "shape_scaling is original.",
                     emerging));
  emerging.products = MuonProducts::single;
  emerging.input = MuonInput::fp32;
  emerging.write = MuonWrite::single;
  all.push_back(muon("emerging-muon-fp32", "Emerging-Optimizers", "0.3.0", Evidence::recorded,
                     "fp32_matmul_prec high or highest.", emerging));

  MuonFormula deepspeed = jordan;
  deepspeed.compiled = true;
  all.push_back(muon(
      "deepspeed-muon", "DeepSpeed", "0.19.8", Evidence::recorded,
      "ns_method standard. torch.compile fuses operations, so that their roundings are not known; "
      "without it (TORCHDYNAMO_DISABLE=1) the step is that of keller-jordan-muon.",
      deepspeed));
  deepspeed.compiled = false;
  deepspeed.products = MuonProducts::single;
  deepspeed.input = MuonInput::fp32;
  deepspeed.write = MuonWrite::single;
  all.push_back(
      muon("deepspeed-muon-gram", "DeepSpeed", "0.19.8", Evidence::recorded,
           "ns_method gram, the default, where the accelerator has no fp16, as the CPU: fp32.",
           deepspeed));

  MuonFormula fsdp2 = torch;
  fsdp2.products = MuonProducts::partly_fused;
  fsdp2.floor = NormFloor::add;
  fsdp2.scales = {{MuonScale::match_rms_adamw}, {MuonScale::original}};
  fsdp2.write = MuonWrite::single;
  all.push_back(
      muon("muon-fsdp2", "muon-fsdp2", "0.3.0", Evidence::recorded,
           "rms_scale is match_rms_adamw. torch.compile makes addmm of b*A and (c*A) @ A.", fsdp2));

  MuonFormula moonlight;
  moonlight.family = MomentumFamily::heavy_ball;
  moonlight.products = MuonProducts::scaled_factor;
  moonlight.floor = NormFloor::add;
  moonlight.scales = {{MuonScale::match_rms_adamw}};
  all.push_back(muon("moonlight-muon", "Moonlight", "examples/toy_train.py", Evidence::compared,
                     "Its formula was recorded, written from its text: the script is no package.",
                     moonlight));

  MuonFormula dion = moonlight;
  dion.sets = {NewtonSchulzSet::quintic};
  dion.products = MuonProducts::scaled_product;
  dion.eps = 1e-8;
  dion.scales = {{MuonScale::unit_rms_norm}, {MuonScale::match_rms_adamw}, {MuonScale::none}};
  all.push_back(muon("dion-muon", "Dion", "dion/muon.py", Evidence::compared,
                     "adjust_lr spectral_norm (unit_rms_norm here), rms_norm or None, without "
                     "polar_express. Its formula "
                     "was recorded, written from its text: the repository is no package.",
                     dion));

  MuonFormula optax;
  optax.directions = {MuonDirection::momentum, MuonDirection::nesterov_corrected};
  optax.sets = {NewtonSchulzSet::simple, NewtonSchulzSet::quintic};
  optax.products = MuonProducts::single;
  optax.input = MuonInput::fp32;
  optax.floor = NormFloor::add;
  optax.eps = 1e-8;
  optax.scales = {{MuonScale::original, true}, {MuonScale::spectral}};
  optax.free_factor = true;
  optax.write = MuonWrite::single;
  all.push_back(muon("optax-muon", "optax", "0.2.8", Evidence::recorded,
                     "optax.contrib.muon in fp32, preconditioning frobenius: matrices are (in, "
                     "out), and the momentum is "
                     "corrected for its bias, for the next step in Nesterov's form.",
                     optax));

  MuonFormula tinygrad;
  tinygrad.family = MomentumFamily::heavy_ball;
  tinygrad.products = MuonProducts::single;
  tinygrad.input = MuonInput::fp32;
  tinygrad.floor = NormFloor::add;
  tinygrad.scales = {{MuonScale::none}};
  tinygrad.write = MuonWrite::single;
  all.push_back(muon("tinygrad-muon", "tinygrad", "0.14.0", Evidence::recorded,
                     "In fp32, without a scale.", tinygrad));
}

}  // namespace

std::string_view name(Evidence evidence) {
  constexpr std::string_view names[] = {"proved", "recorded", "compared", "read"};
  return names[static_cast<int>(evidence)];
}

bool Dialect::takes(const DialectHyper& hyper) const {
  if (hyper.rule == UpdateRule::sgd) return sgd.has_value();
  if (hyper.rule == UpdateRule::lamb) {
    return lamb.has_value() && (without_bias_correction || hyper.bias_correction);
  }
  if (hyper.rule == UpdateRule::muon) return muon.has_value();
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
    add_fused_lamb(all);
    add_torch_lamb(all);
    add_tensorflow_lamb(all);
    add_muon(all);
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
