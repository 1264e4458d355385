#include "verification/tools/identify/identify.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/base/same_value.hpp"
#include "verification/tools/identify/formula_text.hpp"
#include "verification/tools/identify/grid.hpp"
#include "verification/tools/identify/muon_text.hpp"

namespace zeroproof::verification {
namespace {

/// All formulas of one buffer, counted.
class Counted {
 public:
  Counted(const RecordedStep& step, const BufferGrid& grid) : buffer_(grid.buffer) {
    // The search drops a formula with more exceptions than this; tails are always counted
    // completely, because they are short.
    enough_ = 64 + step.numel() / 50;
    for (const Candidate& candidate : grid.candidates) formulas_.push_back(count(step, candidate));
  }

  const std::vector<Leaving>& formulas() const { return formulas_; }
  const Leaving& of(const std::string& text) const {
    return *std::ranges::find(formulas_, text, &Leaving::text);
  }

  /// Exceptions of a body formula with another formula for the last n mod width.
  std::int64_t leaving(const std::string& body, const std::string& tail, int width) const {
    const Leaving& b = of(body);
    const Leaving& t = of(tail);
    if (width == 0) return b.all();
    return b.body + (width == 16 ? t.sixteen + t.eight : b.sixteen + t.eight);
  }

 private:
  Leaving count(const RecordedStep& step, const Candidate& candidate) const {
    Leaving found;
    found.text = candidate.text;
    for (const StepTensor& tensor : step.tensors) {
      const std::vector<float>& got = after(tensor, buffer_);
      const auto differs = [&](std::size_t i) {
        return same_value(candidate.value(tensor, i), got[i]) ? 0 : 1;
      };
      const std::size_t n = tensor.numel();
      const std::size_t eight = n - n % 8, sixteen = n - n % 16;
      for (std::size_t i = 0; i < sixteen && found.body <= enough_; ++i, ++found.scanned)
        found.body += differs(i);
      for (std::size_t i = sixteen; i < n; ++i, ++found.scanned)
        (i < eight ? found.sixteen : found.eight) += differs(i);
    }
    return found;
  }

  std::string buffer_;
  std::int64_t enough_ = 0;
  std::vector<Leaving> formulas_;
};

/// The exceptions of a dialect's formulas, in every buffer.
std::vector<std::int64_t> leaving_of(const Dialect& dialect, const RecordedStep& step,
                                     const std::vector<Counted>& counted) {
  std::vector<std::int64_t> leaving;
  const std::vector<BufferForm> forms = forms_of(dialect, step);
  for (std::size_t k = 0; k < counted.size(); ++k) {
    leaving.push_back(counted[k].leaving(forms[k].body, forms[k].tail, dialect.tail_width));
  }
  return leaving;
}

/// The exceptions of `candidate` have the value before the step.
bool are_unwritten(const RecordedStep& step, const BufferGrid& grid, const std::string& text) {
  const auto& candidate = *std::ranges::find(grid.candidates, text, &Candidate::text);
  for (const StepTensor& tensor : step.tensors) {
    const std::vector<float>& was = before(tensor, grid.buffer);
    if (was.empty()) return false;
    for (std::size_t i = 0; i < tensor.numel(); ++i) {
      const float got = after(tensor, grid.buffer)[i];
      if (!same_value(candidate.value(tensor, i), got) && !same_value(was[i], got)) return false;
    }
  }
  return true;
}

/// True if the dialect takes the ratios of its formula; also for rules without ratios.
bool ratios_fit(const Dialect& dialect, const RecordedStep& step) {
  if (step.hyper.rule != UpdateRule::lamb) return true;
  const std::vector<RatioFinding> ratios = ratios_of(dialect.lamb->master, step);
  return std::ranges::all_of(ratios,
                             [&](const RatioFinding& r) { return allows(dialect.lamb->ratio, r); });
}

/// The ratios of the formula that was found for master. Without one: the formula whose tensors need
/// the fewest parts with a ratio each, as shards that take their own norms have them.
void find_ratios(const RecordedStep& step, Identification& found) {
  BufferFinding& master = found.buffers.back();
  const bool none = master.kind == BufferFinding::Kind::none;
  for (const LambMaster& form : lamb_masters(step.hyper)) {
    const std::string text = lamb_master_text(form, step.hyper);
    if (!none && text != master.best.text) continue;
    std::vector<RatioFinding> ratios = none ? ratios_of_parts(form, step) : ratios_of(form, step);
    if (ratios.empty() || (!found.ratios.empty() && found.ratios.size() <= ratios.size())) continue;
    found.ratios = std::move(ratios);
    if (!none) return;
    master.kind = BufferFinding::Kind::formula;
    master.best = {.text = text};
  }
}

/// Formulas in order of preference: those of a similar dialect first.
std::vector<const Leaving*> by_trust(const Counted& counted, const BufferForm* trusted) {
  std::vector<const Leaving*> order;
  for (const Leaving& formula : counted.formulas()) order.push_back(&formula);
  std::stable_partition(order.begin(), order.end(), [&](const Leaving* f) {
    return trusted != nullptr && f->text == trusted->body;
  });
  return order;
}

BufferFinding finding_of(const RecordedStep& step, const BufferGrid& grid, const Counted& counted,
                         const BufferForm* trusted) {
  BufferFinding found;
  found.buffer = grid.buffer;
  const std::vector<const Leaving*> order = by_trust(counted, trusted);
  found.best = **std::ranges::min_element(order, {}, [](const Leaving* f) { return f->share(); });
  if (found.best.all() == 0) {
    found.kind = BufferFinding::Kind::formula;
    return found;
  }
  for (const int width : {8, 16}) {
    for (const Leaving* body : order) {
      if (body->body + (width == 8 ? body->sixteen : 0) != 0) continue;
      std::vector<const Leaving*> tails = order;
      std::stable_partition(tails.begin(), tails.end(), [&](const Leaving* f) {
        return trusted != nullptr && f->text == trusted->tail;
      });
      for (const Leaving* tail : tails) {
        if (tail->eight + (width == 16 ? tail->sixteen : 0) != 0) continue;
        found.kind = BufferFinding::Kind::two;
        found.best = *body;
        found.tail_text = tail->text;
        found.tail_width = width;
        return found;
      }
    }
  }
  const bool only_tail = found.best.body == 0;
  if (found.best.share() >= no_formula && !only_tail) return found;
  if (only_tail && found.best.share() == 1) return found;  // only tails, and no formula fits them
  found.kind = BufferFinding::Kind::leaves;
  if (only_tail) found.tail_width = found.best.sixteen == 0 ? 8 : 16;
  found.unwritten = are_unwritten(step, grid, found.best.text);
  return found;
}

/// True if `test(tensor, buffer values after the step, before it)` holds for every buffer.
template <class Test>
bool all_buffers(const RecordedStep& step, const std::vector<BufferGrid>& grids, const Test& test) {
  return std::ranges::all_of(step.tensors, [&](const StepTensor& tensor) {
    return std::ranges::all_of(grids, [&](const BufferGrid& grid) {
      return test(after(tensor, grid.buffer), before(tensor, grid.buffer));
    });
  });
}

std::string bits16_of(const RecordedStep& step, const std::vector<BufferGrid>& grids) {
  const auto all_are = [&](auto narrowed) {
    const auto fits = [&](float x) { return same_value(to_float(narrowed(x)), x); };
    const auto is_number = [](float x) { return std::isfinite(x) && x != 0; };
    return all_buffers(step, grids, [&](const auto& values, const auto& was) {
      return std::ranges::all_of(values, fits) && std::ranges::all_of(was, fits) &&
             std::ranges::any_of(values, is_number);
    });
  };
  if (all_are([](float x) { return to_bf16(x); })) return "bf16";
  return all_are([](float x) { return to_fp16(x); }) ? "fp16" : "";
}

/// Compares a step without a dialect with the bound over all legal orders. There is none for
/// settings outside R5's ranges.
void judge_by_bound(const RecordedStep& step, Identification& found) try {
  std::vector<UpdateResults> results;
  for (const StepTensor& tensor : step.tensors) results.push_back(results_of(tensor));
  for (const bool rounded_betas : {false, true}) {
    const UpdateSetup setup = setup_of(step, rounded_betas);
    const std::optional<double> share = share_of_bound(setup, results);
    if (share && (!found.share || *share < *found.share)) found.share = share;
    if (found.legal()) return;
    for (const std::string& formula :
         wrong_formulas(setup, results).value_or(std::vector<std::string>{})) {
      if (std::ranges::find(found.wrong, formula) == found.wrong.end())
        found.wrong.push_back(formula);
    }
  }
} catch (const Error&) {
  found.share.reset();
}

}  // namespace

UpdateSetup setup_of(const RecordedStep& step, bool rounded_betas) {
  const DialectHyper& h = step.hyper;
  UpdateSetup setup;
  setup.hyper.rule = h.rule;
  setup.hyper.lr = h.lr;
  setup.hyper.beta1 = static_cast<float>(h.beta1);
  setup.hyper.beta2 = static_cast<float>(h.beta2);
  setup.hyper.eps = h.eps;
  setup.hyper.weight_decay = h.weight_decay;
  setup.hyper.bias_correction = h.bias_correction;
  setup.hyper.amsgrad = h.amsgrad;
  setup.hyper.maximize = h.maximize;
  setup.hyper.momentum = h.momentum;
  setup.hyper.dampening = h.dampening;
  setup.hyper.nesterov = h.nesterov;
  setup.beta1 = rounded_betas ? setup.hyper.beta1 : h.beta1;
  setup.beta2 = rounded_betas ? setup.hyper.beta2 : h.beta2;
  setup.t = h.rule != UpdateRule::sgd ? h.t : step.is_first ? 1 : 2;
  return setup;
}

UpdateResults results_of(const StepTensor& tensor) {
  const auto view = [](const StepState& s) {
    return UpdateState{s.master, s.exp_avg, s.exp_avg_sq, s.max_exp_avg_sq, s.momentum_buffer};
  };
  return {tensor.grad, view(tensor.before), view(tensor.after)};
}

namespace {

/// Only momentum_buffer has formulas of single elements.
Identification identify_muon(const RecordedStep& step) {
  const BufferGrid grid = grids_of(step).front();
  Identification found;
  found.buffers.push_back(finding_of(step, grid, Counted(step, grid), nullptr));
  found.unchanged = std::ranges::all_of(step.tensors, [](const StepTensor& t) {
    return std::ranges::equal(t.before.master, t.after.master, same_value) &&
           std::ranges::equal(t.before.momentum_buffer, t.after.momentum_buffer, same_value);
  });
  found.muon = find_muon(step);
  found.tells = !found.muon->matrices.empty() || found.muon->zeros_moved || found.muon->overflows;
  std::size_t least = 0;
  for (const Dialect& dialect : all_dialects()) {
    if (!dialect.takes(step.hyper)) continue;
    const std::vector<std::string> excluded =
        excluded_choices(*dialect.muon, *found.muon, step.hyper);
    if (excluded.empty()) found.fits.push_back(dialect.name);
    if (!found.nearest.empty() && excluded.size() >= least) continue;
    least = excluded.size();
    found.nearest = dialect.name;
    found.excluded = excluded;
  }
  if (!found.fits.empty()) found.nearest.clear();
  if (!step.hyper.muon.any()) return found;
  found.wrong = muon_mistakes(step, *found.muon);
  if (!found.wrong.empty()) found.fits.clear();
  return found;
}

}  // namespace

Identification identify(const RecordedStep& step) {
  if (step.hyper.rule == UpdateRule::muon) return identify_muon(step);
  const std::vector<BufferGrid> grids = grids_of(step);
  std::vector<Counted> counted;
  for (const BufferGrid& grid : grids) counted.emplace_back(step, grid);

  Identification found;
  found.unchanged = all_buffers(step, grids, [](const auto& values, const auto& was) {
    return std::ranges::equal(values, was, same_value);
  });
  found.bits16 = bits16_of(step, grids);
  const Dialect* nearest = nullptr;
  std::pair<std::int64_t, std::int64_t> least;
  bool all_fit = true;
  for (const Dialect& dialect : all_dialects()) {
    if (!dialect.takes(step.hyper)) continue;
    const std::vector<std::int64_t> leaving = leaving_of(dialect, step, counted);
    std::pair<std::int64_t, std::int64_t> distance{0, 0};
    for (const std::int64_t count : leaving) {
      distance.first += count > 0 ? 1 : 0;
      distance.second += count;
    }
    const bool fits = distance.first == 0 && ratios_fit(dialect, step);
    if (fits) found.fits.push_back(dialect.name);
    all_fit = all_fit && fits;
    if (nearest == nullptr || distance < least) {
      nearest = &dialect;
      least = distance;
    }
  }
  found.tells = !all_fit;
  std::vector<BufferForm> trusted;
  if (nearest != nullptr) trusted = forms_of(*nearest, step);
  for (std::size_t k = 0; k < grids.size(); ++k) {
    found.buffers.push_back(
        finding_of(step, grids[k], counted[k], nearest == nullptr ? nullptr : &trusted[k]));
  }
  if (step.hyper.rule == UpdateRule::lamb) find_ratios(step, found);
  if (found.fits.empty() && step.hyper.rule != UpdateRule::lamb) judge_by_bound(step, found);
  if (nearest == nullptr || !found.fits.empty()) return found;
  found.nearest = nearest->name;
  for (std::size_t k = 0; k < grids.size(); ++k) {
    const std::int64_t differing =
        counted[k].leaving(trusted[k].body, trusted[k].tail, nearest->tail_width);
    if (differing == 0) continue;
    const std::string tail =
        trusted[k].tail == trusted[k].body
            ? ""
            : "; last n mod " + std::to_string(nearest->tail_width) + ": " + trusted[k].tail;
    found.differences.push_back({grids[k].buffer, trusted[k].body + tail, differing,
                                 counted[k].of(trusted[k].body).scanned});
  }
  return found;
}

}  // namespace zeroproof::verification
