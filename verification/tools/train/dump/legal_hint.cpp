#include "verification/tools/train/dump/legal_hint.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "verification/compare/bounds/model.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/compare/wrong_formulas.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

using bounds::Real;

constexpr std::int64_t most_elements = 100'000;  // that a mistake is tried on
constexpr Real clip_eps = 1e-6;

/// A wrong gradient: `grad_factor` times the mean, clipped by `coef`.
struct Mistake {
  std::string text;
  Real grad_factor = 1, norm = 0, coef = 1;
};

/// 4, 2 of 4: numbers of ranks, or of micro-batches of one.
std::vector<std::int64_t> parts_of(std::int64_t micro_batches) {
  std::vector<std::int64_t> parts;
  for (std::int64_t k = micro_batches; k > 1; --k) {
    if (micro_batches % k == 0) parts.push_back(k);
  }
  return parts;
}

/// The wrong step, and everything that mistakes are computed from.
class WrongStep {
 public:
  WrongStep(const Experiment& experiment, const DumpPlan& plan,
            const std::vector<DumpTensor>& tensors, const FullState& start,
            const TheirTensor& theirs, std::size_t first, bool fp64_betas)
      : setup_(experiment.setup()),
        plan_(plan),
        tensors_(tensors),
        theirs_(theirs),
        first_(tensors[first]),
        run_(experiment, start, fp64_betas) {
    GradCache leaves(experiment);
    DenseBaseline baseline(experiment, leaves, nullptr, &start);
    for (std::int64_t step = 1; step <= first_.step; ++step) {
      if (step == first_.step) keep_state();
      baseline.step(step);
      leaves.forget();
      t_ = baseline.optimizer().applied_steps();
      scale_ = baseline.optimizer().last_step().log2_loss_scale;
      run_.step(step, baseline.optimizer().last_step(), t_,
                reported_scalars(plan, tensors, step, theirs));
    }
    clip_group_ = first_.parameter < 0 ? 0 : setup_.clip_groups.of(first_.parameter);
    param_group_ = first_.parameter < 0 ? 0 : setup_.groups.of(first_.parameter);
  }

  std::string hint() {
    if (run_.skipped()) return "";
    const DumpBuffer& buffer = plan_.buffers()[first_.buffer];
    switch (buffer.id) {
      case BufferId::grad_norm:
        return scalar_hint([](const Mistake& m) { return m.norm; });
      case BufferId::clip_coef:
        return scalar_hint([](const Mistake& m) { return m.coef; });
      case BufferId::grad_sum:
        return factor_hint();
      case BufferId::grad:
        return grad_hint();
      default:
        return update_hint();
    }
  }

 private:
  const std::vector<TensorSlot>& slots() const { return plan_.layout().tensors(); }

  /// The state before the step: theirs, where their file has it.
  void keep_state() {
    for (const DumpBuffer& buffer : plan_.buffers()) {
      const bool is_kept = buffer.id == BufferId::master || is_state(buffer.id);
      if (!is_kept || !buffer.per_parameter) continue;
      std::vector<float>& values = before_[buffer.id];
      values.assign(static_cast<std::size_t>(plan_.layout().padded_numel()), 0.0F);
      for (std::size_t p = 0; p < slots().size(); ++p) {
        for (std::int64_t i = 0; i < slots()[p].numel; ++i)
          values[static_cast<std::size_t>(slots()[p].begin + i)] =
              static_cast<float>(run_.bound_of(buffer, static_cast<std::int64_t>(p), i).exact);
      }
    }
    for (const DumpTensor& tensor : tensors_) {
      if (tensor.step != first_.step - 1 || tensor.step == 0) continue;
      take(tensor, before_);
    }
  }

  /// Copies a tensor of theirs into the whole buffer, if that is one of the state.
  bool take(const DumpTensor& tensor, std::map<BufferId, std::vector<float>>& state) const {
    const DumpBuffer& buffer = plan_.buffers()[tensor.buffer];
    const auto values = state.find(buffer.id);
    if (tensor.parameter < 0 || values == state.end()) return false;
    const std::unique_ptr<Loaded> loaded = theirs_(tensor);
    if (!loaded) return false;
    const TensorView view = loaded->view();
    const TensorSlot& slot = slots()[static_cast<std::size_t>(tensor.parameter)];
    for (std::int64_t i = 0; i < view.numel; ++i)
      values->second[static_cast<std::size_t>(slot.begin + i)] =
          static_cast<float>(float_at(view, i));
    return true;
  }

  Real limit() const {
    const std::optional<double> limit = max_norms_of(
        setup_.clip_groups, setup_.hyper.max_norm)[static_cast<std::size_t>(clip_group_)];
    return limit ? *limit : 0;
  }
  Real coefficient(Real norm, Real eps = clip_eps) const {
    return limit() == 0 ? 1 : std::min<Real>(1, limit() / (norm + eps));
  }

  /// A norm over the elements that are taken.
  template <class Takes>
  Real norm_over(const Takes& takes) const {
    Real squares = 0;
    for (std::size_t p = 0; p < slots().size(); ++p) {
      if (setup_.clip_groups.of(static_cast<std::int64_t>(p)) != clip_group_) continue;
      for (std::int64_t i = 0; i < slots()[p].numel; ++i) {
        if (!takes(p, i)) continue;
        const Real x = run_.mean(slots()[p].begin + i).exact;
        squares += x * x;
      }
    }
    return std::sqrt(squares);
  }

  std::vector<Mistake> mistakes() const {
    const Real n = run_.used_norm(clip_group_).exact, c = coefficient(n);
    std::vector<Mistake> all;
    const auto add = [&](const std::string& text, Real factor, Real norm, Real coef) {
      all.push_back({text, factor, norm, coef});
    };
    const auto add_norm = [&](const std::string& text, Real norm) {
      add(text, 1, norm, coefficient(norm));
    };
    const auto number_of = [this](std::int64_t k) {
      return k == setup_.micro_batches ? fmt::format("{}, the number of micro-batches", k)
                                       : fmt::format("{} (ranks, or micro-batches of one)", k);
    };
    const std::vector<std::int64_t> numbers = parts_of(setup_.micro_batches);
    for (const std::int64_t k : numbers) {
      const auto parts = static_cast<Real>(k);
      add("the gradient were not divided by " + number_of(k), parts, parts * n,
          coefficient(parts * n));
      add("the gradient were divided twice by " + number_of(k), 1 / parts, n / parts,
          coefficient(n / parts));
    }
    if (limit() != 0) {
      add("the gradient were not clipped", 1, n, 1);
      add("the clip were applied twice", 1, n, c * c);
      add("the gradient were scaled up to max_norm, although its norm is below", 1, n,
          limit() / (n + clip_eps));
      add("the coefficient were 1 / norm, without max_norm", 1, n, std::min<Real>(1, 1 / n));
      add("nothing were added to the norm", 1, n, coefficient(n, 0));
      for (const std::int64_t k : numbers)
        add(fmt::format("1e-6 were added to the norm {} times, once per rank", k), 1, n,
            coefficient(n, static_cast<Real>(k) * clip_eps));
    }
    for (const std::int64_t k : numbers) {
      const auto parts = static_cast<Real>(k);
      add_norm("the norm were that of the gradient before its division by " + number_of(k),
               parts * n);
      add_norm("the norm were divided by " + number_of(k), n / parts);
    }
    for (const std::int64_t k : numbers) {
      const Real root = std::sqrt(static_cast<Real>(k));
      add_norm("the norm were multiplied by the root of " + number_of(k), n * root);
      add_norm("the norm were divided by the root of " + number_of(k), n / root);
    }
    if (scale_ != 0) {
      const Real scale = std::exp2(static_cast<Real>(scale_));
      add(fmt::format("the gradient were not divided by the loss scale, 2^{}", scale_), scale,
          scale * n, coefficient(scale * n));
      add_norm("the norm were that of the scaled gradient", scale * n);
    }
    if (setup_.hyper.norm != NormForm::inf && setup_.hyper.norm != NormForm::one) {
      add_norm("no root were taken of the norm", n * n);
      for (std::size_t p = 0; p < slots().size(); ++p) {
        if (setup_.clip_groups.of(static_cast<std::int64_t>(p)) != clip_group_) continue;
        Real squares = 0;
        for (std::int64_t i = 0; i < slots()[p].numel; ++i) {
          const Real x = run_.mean(slots()[p].begin + i).exact;
          squares += x * x;
        }
        const Real own = std::sqrt(squares);
        if (own == 0) continue;
        add_norm(slots()[p].name + " were left out of the norm",
                 std::sqrt(std::max<Real>(n * n - own * own, 0)));
        add_norm(slots()[p].name + " were counted twice in the norm", std::sqrt(n * n + own * own));
      }
    }
    return all;
  }

  /// The relative error of a norm that the program did not report.
  Real norm_error() const {
    Real elements = 0;
    for (const TensorSlot& slot : slots()) elements += static_cast<Real>(slot.numel);
    return (elements / 2 + 48) * bounds::u;
  }

  /// Whether a mistake can be told from the right result.
  static bool differs(Real wrong, Real right, Real error) {
    return std::fabs(wrong - right) > 2 * error;
  }

  template <class Member>
  std::string scalar_hint(const Member& member) const {
    const std::unique_ptr<Loaded> loaded = theirs_(first_);
    const Real got = float_at(loaded->view(), clip_group_);
    const BoundedValue& n = run_.used_norm(clip_group_);
    const Real relative = n.exact == 0 ? 1 : n.error / n.exact + 8 * bounds::u;
    Mistake right;
    right.norm = n.exact;
    right.coef = coefficient(n.exact);
    std::vector<Mistake> all = mistakes();
    // A wrong coefficient of the right norm is the nearer cause of a wrong coefficient.
    std::ranges::stable_partition(all, [&](const Mistake& m) { return m.norm == n.exact; });
    for (const Mistake& mistake : all) {
      const Real wrong = member(mistake), error = relative * wrong;
      if (differs(wrong, member(right), error) && std::fabs(got - wrong) <= error)
        return "as if " + mistake.text;
    }
    for (const Shards& shards : shardings()) {
      for (std::size_t r = 0; r < shards.norms.size(); ++r) {
        Mistake own;
        own.norm = shards.norms[r];
        own.coef = coefficient(own.norm);
        const Real wrong = member(own), error = norm_error() * wrong;
        if (differs(wrong, member(right), error) && std::fabs(got - wrong) <= error)
          return fmt::format("as if the norm were that of the shard of rank {} of {} ({})", r,
                             shards.norms.size(), shards.text);
      }
    }
    return "";
  }

  /// A way to cut gradients into shards, with the norm of each.
  struct Shards {
    std::string text;
    std::function<std::size_t(std::size_t parameter, std::int64_t i)> rank_of;
    std::vector<Real> norms;
  };
  std::vector<Shards> shardings() const {
    std::vector<Shards> all;
    std::vector<std::int64_t> begins;
    std::int64_t total = 0;
    for (const TensorSlot& slot : slots()) {
      begins.push_back(total);
      total += slot.numel;
    }
    for (const std::int64_t world : parts_of(setup_.micro_batches)) {
      const auto part = [world](std::int64_t i, std::int64_t n) {
        return static_cast<std::size_t>(
            std::min(i / std::max<std::int64_t>((n + world - 1) / world, 1), world - 1));
      };
      all.push_back({"rows of every tensor",
                     [this, part](std::size_t p, std::int64_t i) {
                       const TensorSlot& slot = slots()[p];
                       const std::int64_t rows = slot.shape.empty() ? 1 : slot.shape.front();
                       return part(i / (slot.numel / rows), rows);
                     },
                     {}});
      all.push_back({"of all elements in their order",
                     [begins, total, part](std::size_t p, std::int64_t i) {
                       return part(begins[p] + i, total);
                     },
                     {}});
      for (Shards* shards : {&all[all.size() - 2], &all.back()}) {
        for (std::size_t r = 0; r < static_cast<std::size_t>(world); ++r)
          shards->norms.push_back(
              norm_over([&](std::size_t p, std::int64_t i) { return shards->rank_of(p, i) == r; }));
      }
    }
    return all;
  }

  /// A factor that all elements of the first tensor have in common.
  std::string factor_hint() const {
    const std::unique_ptr<Loaded> loaded = theirs_(first_);
    const TensorView got = loaded->view();
    const DumpBuffer& buffer = plan_.buffers()[first_.buffer];
    Real factor = 0, most = 0;
    for (std::int64_t i = 0; i < got.numel; ++i) {
      const Real want = run_.bound_of(buffer, first_.parameter, i).exact;
      if (!(std::fabs(want) > most)) continue;
      most = std::fabs(want);
      factor = float_at(got, i) / want;
    }
    if (factor == 0 || !std::isfinite(factor)) return "";
    for (std::int64_t i = 0; i < got.numel; ++i) {
      const ElementBound bound = run_.bound_of(buffer, first_.parameter, i);
      const Real allowed =
          std::fabs(factor) * (2 * bound.allowed + 8 * bounds::u * std::fabs(bound.exact)) +
          2 * bounds::eta;
      if (!(std::fabs(float_at(got, i) - factor * bound.exact) <= allowed)) return "";
    }
    const Real inverse = 1 / factor;
    if (std::fabs(inverse - std::round(inverse)) < 1e-4L * inverse && inverse > 1.5L)
      return fmt::format("as if the gradient were divided by {:.0f}", static_cast<double>(inverse));
    return fmt::format("as if the gradient were multiplied by {:.6g}", static_cast<double>(factor));
  }

  /// A wrong gradient of an element, in place of the right one.
  using WrongGrad = std::function<BoundedValue(std::size_t parameter, std::int64_t i)>;
  struct GradMistake {
    std::string text;
    WrongGrad grad;
  };

  std::vector<GradMistake> grad_mistakes() const {
    const BoundedValue& n = run_.used_norm(clip_group_);
    const Real relative = n.exact == 0 ? 0 : n.error / n.exact + 8 * bounds::u;
    std::vector<GradMistake> all;
    const auto of = [this](std::size_t p, std::int64_t i, Real factor, Real error) -> BoundedValue {
      const BoundedValue& mean = run_.mean(slots()[p].begin + i);
      return {mean.exact * factor,
              factor * (mean.error + error * std::fabs(mean.exact)) + 2 * bounds::eta};
    };
    const Real right = coefficient(n.exact);
    for (const Mistake& mistake : mistakes()) {
      const Real factor = mistake.grad_factor * mistake.coef;
      if (!differs(factor, right, relative * factor)) continue;
      all.push_back({mistake.text, [of, factor, relative](std::size_t p, std::int64_t i) {
                       return of(p, i, factor, relative);
                     }});
    }
    if (limit() == 0) return all;
    for (const Shards& shards : shardings()) {
      std::vector<Real> coefs;
      bool differ = false;
      for (const Real norm : shards.norms) {
        coefs.push_back(coefficient(norm));
        differ = differ || differs(coefs.back(), right, norm_error() * coefs.back());
      }
      if (!differ) continue;
      all.push_back(
          {fmt::format("each of {} ranks clipped by the norm of its own shard ({})", coefs.size(),
                       shards.text),
           [of, coefs, rank_of = shards.rank_of, error = norm_error()](
               std::size_t p, std::int64_t i) { return of(p, i, coefs[rank_of(p, i)], error); }});
    }
    return all;
  }

  std::string grad_hint() const {
    const std::unique_ptr<Loaded> loaded = theirs_(first_);
    const TensorView got = loaded->view();
    for (const GradMistake& mistake : grad_mistakes()) {
      bool all = true;
      for (std::int64_t i = 0; i < got.numel && all; ++i) {
        const BoundedValue want = mistake.grad(static_cast<std::size_t>(first_.parameter), i);
        all = std::fabs(float_at(got, i) - want.exact) <= want.error;
      }
      if (all) return "as if " + mistake.text;
    }
    return factor_hint();
  }

  /// Results of the step of the tensors of the first one's groups, the first one before all others.
  struct Results {
    std::deque<std::vector<float>> grads;
    std::deque<std::vector<double>> errors;
    std::map<BufferId, std::vector<float>> after;
    std::vector<UpdateResults> tensors;
    std::vector<std::size_t> parameters;

    void set_grads(const std::vector<TensorSlot>& slots, const WrongGrad& grad) {
      for (std::size_t k = 0; k < parameters.size(); ++k) {
        for (std::int64_t i = 0; i < slots[parameters[k]].numel; ++i) {
          const BoundedValue g = grad(parameters[k], i);
          const auto at = static_cast<std::size_t>(i);
          grads[k][at] = static_cast<float>(g.exact);
          errors[k][at] = static_cast<double>(
              (g.error + bounds::u * std::fabs(g.exact) + bounds::eta) * bounds::slack);
        }
      }
    }
  };

  Results results() const {
    Results all;
    std::map<BufferId, std::set<std::int64_t>> recorded;  // parameters
    for (const auto& [id, values] : before_) all.after[id].assign(values.size(), 0.0F);
    for (const DumpTensor& tensor : tensors_) {
      if (tensor.step == first_.step && take(tensor, all.after))
        recorded[plan_.buffers()[tensor.buffer].id].insert(tensor.parameter);
    }
    std::vector<std::int64_t> order = {first_.parameter};
    for (std::int64_t p = 0; p < std::ssize(slots()); ++p) {
      if (p != first_.parameter) order.push_back(p);
    }
    std::int64_t numel = 0;
    for (const std::int64_t p : order) {
      const TensorSlot& slot = slots()[static_cast<std::size_t>(p)];
      const bool has_room = numel == 0 || numel + slot.numel <= most_elements;
      if (!has_room || setup_.groups.of(p) != param_group_ ||
          setup_.clip_groups.of(p) != clip_group_)
        continue;
      numel += slot.numel;
      const auto part = [&](const std::map<BufferId, std::vector<float>>& of, BufferId id,
                            bool is_there) -> Span<const float> {
        const auto found = of.find(id);
        if (found == of.end() || !is_there) return {};
        return Span<const float>(found->second)
            .subspan(static_cast<std::size_t>(slot.begin), static_cast<std::size_t>(slot.numel));
      };
      const auto state = [&](const auto& of, bool all_there) {
        const auto get = [&](BufferId id) {
          return part(of, id, all_there || (recorded.contains(id) && recorded.at(id).contains(p)));
        };
        return UpdateState{get(BufferId::master), get(BufferId::exp_avg), get(BufferId::exp_avg_sq),
                           get(BufferId::max_exp_avg_sq), get(BufferId::momentum_buffer)};
      };
      const auto size = static_cast<std::size_t>(slot.numel);
      all.grads.emplace_back(size);
      all.errors.emplace_back(size);
      all.tensors.push_back(
          {all.grads.back(), state(before_, true), state(all.after, false), all.errors.back()});
      all.parameters.push_back(static_cast<std::size_t>(p));
    }
    return all;
  }

  UpdateSetup update_setup(std::int64_t t) const {
    return {hyper_of(setup_.groups, setup_.hyper, param_group_, t, setup_.micro_batches),
            run_.beta1(), run_.beta2(), t_};
  }

  std::string update_hint() const {
    Results all = results();
    const auto explains = [&](const UpdateSetup& setup) {
      const std::optional<double> share = share_of_bound(setup, all.tensors);
      return share && *share <= 1;
    };
    const UpdateSetup right = update_setup(t_);
    for (const GradMistake& mistake : grad_mistakes()) {
      all.set_grads(slots(), mistake.grad);
      if (explains(right)) return "as if " + mistake.text;
    }
    all.set_grads(
        slots(), [this](std::size_t p, std::int64_t i) { return run_.grad(slots()[p].begin + i); });
    const std::optional<std::vector<std::string>> formulas = wrong_formulas(right, all.tensors);
    if (formulas && !formulas->empty()) return as_if(*formulas);
    for (const std::int64_t k : parts_of(setup_.micro_batches)) {
      UpdateSetup wrong = right;
      wrong.hyper.eps *= static_cast<double>(k);
      if (traits_of(right.hyper.rule).keeps[StateSlot::exp_avg_sq] && explains(wrong))
        return fmt::format("as if eps were added {} times, once per rank", k);
      wrong = right;
      wrong.hyper.lr *= static_cast<double>(k);
      if (explains(wrong)) return fmt::format("as if lr were {} times as large", k);
    }
    for (const std::int64_t other : {t_ - 1, t_ + 1}) {
      if (other < 1) continue;
      UpdateSetup wrong = right;
      const UpdateSetup then = update_setup(other);
      wrong.hyper.lr = then.hyper.lr;
      wrong.hyper.weight_decay = then.hyper.weight_decay;
      if (wrong.hyper.lr != right.hyper.lr && explains(wrong))
        return fmt::format("as if lr were {:g}, that of update {}", wrong.hyper.lr, other);
    }
    return "";
  }

  const OptimizerSetup setup_;
  const DumpPlan& plan_;
  const std::vector<DumpTensor>& tensors_;
  const TheirTensor& theirs_;
  const DumpTensor& first_;
  LegalRun run_;
  std::map<BufferId, std::vector<float>> before_;
  std::int64_t t_ = 1;
  int scale_ = 0, clip_group_ = 0, param_group_ = 0;
};

}  // namespace

ReportedScalars reported_scalars(const DumpPlan& plan, const std::vector<DumpTensor>& tensors,
                                 std::int64_t step, const TheirTensor& theirs) {
  ReportedScalars reported;
  for (const DumpTensor& tensor : tensors) {
    const DumpBuffer& buffer = plan.buffers()[tensor.buffer];
    if (tensor.step != step ||
        (buffer.id != BufferId::grad_norm && buffer.id != BufferId::clip_coef))
      continue;
    const std::unique_ptr<Loaded> loaded = theirs(tensor);
    if (!loaded) continue;
    const TensorView view = loaded->view();
    for (std::int64_t i = 0; i < view.numel; ++i) {
      if (buffer.id == BufferId::grad_norm)
        reported.grad_norm.push_back(float_at(view, i));
      else
        reported.clip_coef.push_back(static_cast<float>(float_at(view, i)));
    }
  }
  return reported;
}

std::string legal_hint(const Experiment& experiment, const DumpPlan& plan,
                       const std::vector<DumpTensor>& tensors, const FullState& start,
                       const TheirTensor& theirs, std::size_t first, bool fp64_betas) {
  const DumpTensor& tensor = tensors[first];
  const bool is_there = theirs(tensor) != nullptr;
  if (tensor.step < 1 || !is_there || !LegalRun::has_bound(plan.buffers()[tensor.buffer]))
    return "";
  return WrongStep(experiment, plan, tensors, start, theirs, first, fp64_betas).hint();
}

}  // namespace zeroproof::verification
