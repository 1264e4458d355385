#include "verification/tools/identify/grid.hpp"

#include "verification/tools/identify/elements.hpp"
#include "verification/tools/identify/formula_text.hpp"
#include "verification/tools/identify/ratio.hpp"

namespace zeroproof::verification {
namespace {

template <class Choice>
std::vector<Choice> choices(Choice last) {
  std::vector<Choice> all;
  for (int i = 0; i <= static_cast<int>(last); ++i) all.push_back(static_cast<Choice>(i));
  return all;
}

/// Values of the choice "L2 contracted": one is enough without L2.
std::vector<bool> coupled_choices(const DialectHyper& h) {
  return couples(h) ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

BufferGrid first_moments(const DialectHyper& h) {
  BufferGrid grid{"exp_avg", {}};
  for (const Betas betas : choices(Betas::fp32)) {
    const AverageWeights w = average_weights(h.beta1, betas);
    for (const bool fused : coupled_choices(h)) {
      for (const FirstMoment form : choices(FirstMoment::right)) {
        grid.candidates.push_back(
            {first_moment_text(form, betas, fused, h), [=](const StepTensor& t, std::size_t i) {
               const float g = used_gradient(h, couples(h), fused, t.before.master[i], t.grad[i]);
               return first_moment(form, w, t.before.exp_avg[i], g);
             }});
      }
    }
  }
  return grid;
}

BufferGrid second_moments(const DialectHyper& h) {
  BufferGrid grid{"exp_avg_sq", {}};
  for (const Betas betas : choices(Betas::fp32)) {
    const AverageWeights w = average_weights(h.beta2, betas);
    for (const bool fused : coupled_choices(h)) {
      for (const SecondMoment form : choices(SecondMoment::lerp_fused)) {
        grid.candidates.push_back(
            {second_moment_text(form, betas, fused, h), [=](const StepTensor& t, std::size_t i) {
               const float g = used_gradient(h, couples(h), fused, t.before.master[i], t.grad[i]);
               return second_moment(form, w, t.before.exp_avg_sq[i], g);
             }});
      }
    }
  }
  return grid;
}

BufferGrid maxima() {
  BufferGrid grid{"max_exp_avg_sq", {}};
  for (const Maximum form : choices(Maximum::replaces_nan)) {
    grid.candidates.push_back({maximum_text(form), [=](const StepTensor& t, std::size_t i) {
                                 return maximum(form, t.before.max_exp_avg_sq[i],
                                                t.after.exp_avg_sq[i]);
                               }});
  }
  return grid;
}

/// All meaningful choices; choices without effect under these settings are tried once.
std::vector<MasterFormula> master_formulas(const DialectHyper& h) {
  std::vector<MasterFormula> formulas;
  for (const Corrections corrections : choices(Corrections::running)) {
    if (!h.bias_correction && corrections != Corrections::fp64) continue;
    for (const Root root : choices(Root::mkl_amd)) {
      for (const Denominator denominator : choices(Denominator::inside)) {
        for (const Write write : choices(Write::corrected_fused)) {
          for (const Decay decay : choices(Decay::in_rate_fused)) {
            if (!decouples(h) && decay != Decay::factor) continue;
            if (sensible(decay, write))
              formulas.push_back({corrections, root, denominator, decay, write});
          }
        }
      }
    }
  }
  return formulas;
}

BufferGrid adam_masters(const DialectHyper& h) {
  BufferGrid grid{"master", {}};
  for (const MasterFormula& form : master_formulas(h)) {
    const MasterScalars scalars = master_scalars(h, form.corrections);
    grid.candidates.push_back({master_text(form, h), [=](const StepTensor& t, std::size_t i) {
                                 const float x =
                                     h.amsgrad ? t.after.max_exp_avg_sq[i] : t.after.exp_avg_sq[i];
                                 return new_master(form, decouples(h), t.before.master[i],
                                                   t.after.exp_avg[i], x, scalars);
                               }});
  }
  return grid;
}

/// Every formula with the factors that give most elements of each tensor.
BufferGrid lamb_grid(const RecordedStep& step) {
  BufferGrid grid{"master", {}};
  const DialectHyper& h = step.hyper;
  for (const LambMaster& form : lamb_masters(h)) {
    std::vector<float> factors;
    for (const StepTensor& tensor : step.tensors)
      factors.push_back(solve_factor(form, h, tensor).low);
    const MasterScalars scalars = master_scalars(h, form.corrections);
    const StepTensor* first = step.tensors.data();
    grid.candidates.push_back({lamb_master_text(form, h), [=](const StepTensor& t, std::size_t i) {
                                 const float p = t.before.master[i];
                                 const float u =
                                     lamb_update(form, decouples(h), p, t.after.exp_avg[i],
                                                 t.after.exp_avg_sq[i], scalars);
                                 const float c = factors[static_cast<std::size_t>(&t - first)];
                                 return lamb_master(form.write, p, u, c, scalars.lr);
                               }});
  }
  return grid;
}

BufferGrid buffers(const DialectHyper& h, bool is_first) {
  BufferGrid grid{"momentum_buffer", {}};
  const auto mu = static_cast<float>(h.momentum);
  const auto take = static_cast<float>(1 - h.dampening);
  for (const bool fused : coupled_choices(h)) {
    for (const Contraction form : choices(Contraction::right)) {
      if (is_first && form != Contraction::none) continue;
      grid.candidates.push_back(
          {buffer_text(form, is_first, fused, h), [=](const StepTensor& t, std::size_t i) {
             const float g = used_gradient(h, couples(h), fused, t.before.master[i], t.grad[i]);
             return is_first ? g : sum_of_products(form, mu, t.before.momentum_buffer[i], take, g);
           }});
    }
  }
  return grid;
}

BufferGrid sgd_masters(const DialectHyper& h) {
  BufferGrid grid{"master", {}};
  const auto mu = static_cast<float>(h.momentum);
  const auto lr = static_cast<float>(h.lr);
  const bool from_buffer = h.momentum != 0;
  const bool mixes = from_buffer && h.nesterov;
  for (const bool coupled : mixes || !from_buffer ? coupled_choices(h) : std::vector<bool>{false}) {
    for (const bool mixed : mixes ? std::vector<bool>{false, true} : std::vector<bool>{false}) {
      for (const bool fused : {false, true}) {
        grid.candidates.push_back(
            {sgd_master_text(mixed, fused, coupled, h), [=](const StepTensor& t, std::size_t i) {
               const float p = t.before.master[i];
               const float g = used_gradient(h, couples(h), coupled, p, t.grad[i]);
               float e = from_buffer ? t.after.momentum_buffer[i] : g;
               if (mixes) e = nesterov(mixed, mu, e, g);
               return sgd_master(fused, lr, e, p);
             }});
      }
    }
  }
  return grid;
}

/// Of muon: its master is no function of single elements.
BufferGrid muon_momenta(const DialectHyper& h) {
  BufferGrid grid{"momentum_buffer", {}};
  const auto gradient = [h](const StepTensor& t, std::size_t i) {
    return h.maximize ? -t.grad[i] : t.grad[i];
  };
  for (const Betas betas : choices(Betas::fp32)) {
    const AverageWeights w = average_weights(h.momentum, betas);
    for (const FirstMoment form : choices(FirstMoment::right)) {
      grid.candidates.push_back(
          {muon_ema_text(form, betas), [=](const StepTensor& t, std::size_t i) {
             return first_moment(form, w, t.before.momentum_buffer[i], gradient(t, i));
           }});
    }
  }
  for (const bool fused : {false, true}) {
    grid.candidates.push_back(
        {muon_heavy_ball_text(fused), [=](const StepTensor& t, std::size_t i) {
           return nesterov(fused, static_cast<float>(h.momentum), t.before.momentum_buffer[i],
                           gradient(t, i));
         }});
  }
  return grid;
}

const std::vector<float>& kept(const StepState& state, const std::string& buffer) {
  if (buffer == "master") return state.master;
  if (buffer == "exp_avg") return state.exp_avg;
  if (buffer == "exp_avg_sq") return state.exp_avg_sq;
  return buffer == "max_exp_avg_sq" ? state.max_exp_avg_sq : state.momentum_buffer;
}

}  // namespace

std::vector<LambMaster> lamb_masters(const DialectHyper& h) {
  std::vector<LambMaster> forms;
  for (const Denominator denominator : choices(Denominator::uncorrected)) {
    for (const LambStep step : choices(LambStep::plain)) {
      if (!sensible(step, denominator)) continue;
      for (const Corrections corrections : choices(Corrections::single)) {
        const bool corrects = h.bias_correction && denominator != Denominator::uncorrected;
        if (corrections == Corrections::running) continue;
        if (!corrects && corrections != Corrections::fp64) continue;
        for (const Root root : choices(Root::mkl_amd)) {
          for (const LambWrite write : choices(LambWrite::rate_fused)) {
            for (const bool decay_fused : {false, true}) {
              if (decay_fused && !decouples(h)) continue;
              forms.push_back({corrections, root, denominator, step, decay_fused, write});
            }
          }
        }
      }
    }
  }
  return forms;
}

std::vector<BufferGrid> grids_of(const RecordedStep& step) {
  const DialectHyper& h = step.hyper;
  std::vector<BufferGrid> grids;
  if (h.rule == UpdateRule::sgd) {
    if (h.momentum != 0) grids.push_back(buffers(h, step.is_first));
    grids.push_back(sgd_masters(h));
    return grids;
  }
  if (h.rule == UpdateRule::muon) return {muon_momenta(h)};
  grids.push_back(first_moments(h));
  grids.push_back(second_moments(h));
  if (h.amsgrad) grids.push_back(maxima());
  grids.push_back(h.rule == UpdateRule::lamb ? lamb_grid(step) : adam_masters(h));
  return grids;
}

std::vector<BufferForm> forms_of(const Dialect& dialect, const RecordedStep& step) {
  const DialectHyper& h = step.hyper;
  std::vector<BufferForm> forms;
  if (h.rule == UpdateRule::sgd) {
    const SgdFormula& f = *dialect.sgd;
    if (h.momentum != 0) {
      forms.push_back({buffer_text(f.buffer, step.is_first, f.coupled_fused, h),
                       buffer_text(f.buffer_tail, step.is_first, f.coupled_fused, h)});
    }
    const std::string master = sgd_master_text(f.nesterov_fused, f.write_fused, f.coupled_fused, h);
    forms.push_back({master, master});
    return forms;
  }
  const bool lamb = h.rule == UpdateRule::lamb;
  const AdamFormula& f = lamb ? dialect.lamb->moments : *dialect.adam;
  forms.push_back({first_moment_text(f.first, f.betas, f.coupled_fused, h),
                   first_moment_text(f.first_tail, f.betas, f.coupled_fused, h)});
  forms.push_back({second_moment_text(f.second, f.betas, f.coupled_fused, h),
                   second_moment_text(f.second_tail, f.betas, f.coupled_fused, h)});
  if (h.amsgrad) forms.push_back({maximum_text(f.maximum), maximum_text(f.maximum)});
  const std::string master =
      lamb ? lamb_master_text(dialect.lamb->master, h) : master_text(f.master, h);
  forms.push_back({master, master});
  return forms;
}

const std::vector<float>& after(const StepTensor& tensor, const std::string& buffer) {
  return kept(tensor.after, buffer);
}

const std::vector<float>& before(const StepTensor& tensor, const std::string& buffer) {
  return kept(tensor.before, buffer);
}

}  // namespace zeroproof::verification
