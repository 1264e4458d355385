// Phase update: parameters and state by a known dialect, or by any legal order of the rule.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "common/base/error.hpp"
#include "common/base/same_value.hpp"
#include "verification/compare/bounds/update_bounds.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/identify/grid.hpp"
#include "verification/tools/identify/identify.hpp"
#include "verification/tools/judge_run/run_element.hpp"
#include "verification/tools/judge_run/run_findings.hpp"

namespace zeroproof::verification {
namespace {

/// Parameters of one rank with the same settings.
struct UpdatedTensors {
  RecordedStep step;
  std::vector<std::size_t> parameters;
  std::vector<DType> dtypes;             ///< of master
  std::vector<DType> state_dtypes = {};  ///< of everything else

  bool has_16_bit_masters() const { return any_of_16_bits(dtypes); }
  /// Every operation may round to 16 bits: there is no bound for that.
  bool has_16_bit_states() const {
    const bool keeps_none = step_buffers(step.hyper).size() == 1;
    return has_16_bit_masters() && (keeps_none || any_of_16_bits(state_dtypes));
  }

 private:
  static bool any_of_16_bits(const std::vector<DType>& all) {
    return std::ranges::any_of(all, [](DType d) { return d != DType::fp32; });
  }
};

/// "master" and so on with their bounds.
struct NamedBound {
  const char* buffer;
  const std::vector<float>* got;
  ElementBound bound;
};

std::vector<NamedBound> bounds_of(const StepTensor& t, const UpdateBound& bound) {
  std::vector<NamedBound> named;
  const auto add = [&](const char* buffer, const std::vector<float>& got, const ElementBound& b) {
    if (!got.empty()) named.push_back({buffer, &got, b});
  };
  add("exp_avg", t.after.exp_avg, bound.exp_avg);
  add("exp_avg_sq", t.after.exp_avg_sq, bound.exp_avg_sq);
  add("max_exp_avg_sq", t.after.max_exp_avg_sq, bound.max_exp_avg_sq);
  add("momentum_buffer", t.after.momentum_buffer, bound.momentum_buffer);
  add("master", t.after.master, bound.master);
  return named;
}

float value_or_0(const std::vector<float>& values, std::size_t i) {
  return values.empty() ? 0 : values[i];
}

UpdateBound bound_at(const UpdateBounds& bounds, const StepTensor& t, std::size_t i) {
  const StepState& b = t.before;
  return bounds(t.grad[i],
                {value_or_0(b.master, i), value_or_0(b.exp_avg, i), value_or_0(b.exp_avg_sq, i),
                 value_or_0(b.max_exp_avg_sq, i), value_or_0(b.momentum_buffer, i)});
}

/// Every result against its bound.
void judge_elements(const UpdatedTensors& tensors, std::size_t rank, bool rounded_betas,
                    RunFindings& found) {
  const UpdateSetup setup = setup_of(tensors.step, rounded_betas);
  for (std::size_t k = 0; k < tensors.step.tensors.size(); ++k) {
    const StepTensor& t = tensors.step.tensors[k];
    UpdateBounds bounds(setup.hyper, setup.t);
    bounds.set_betas(setup.beta1, setup.beta2);
    if (tensors.dtypes[k] == DType::bf16) bounds.cast_master_to_bf16();
    // Buffer by buffer, so that the elements of a place come together.
    std::vector<UpdateBound> of_element;
    for (std::size_t i = 0; i < t.numel(); ++i) of_element.push_back(bound_at(bounds, t, i));
    const std::size_t num_buffers = t.numel() == 0 ? 0 : bounds_of(t, of_element.front()).size();
    for (std::size_t b = 0; b < num_buffers; ++b) {
      for (std::size_t i = 0; i < t.numel(); ++i) {
        NamedBound named = bounds_of(t, of_element[i])[b];
        const bool is_master = std::string_view(named.buffer) == "master";
        const DType dtype = is_master ? tensors.dtypes[k] : tensors.state_dtypes[k];
        // A master in bf16 has an exact bound of its own.
        if (!is_master || dtype != DType::bf16) named.bound = stored_in(dtype, named.bound);
        const RunPlace place{rank,
                             tensors.parameters[k],
                             std::string("after.") + named.buffer,
                             "is in no legal order of the rule",
                             false,
                             dtype};
        const float got = (*named.got)[i];
        const long double want =
            named.bound.judged ? named.bound.exact : std::numeric_limits<long double>::quiet_NaN();
        found.add(place, static_cast<std::int64_t>(i), named.bound.ratio(got), got, want);
      }
    }
  }
}

/// The rate that explains the parameters, if the moments are right: "as if lr were 0.002, that of group 1".
std::string wrong_rate(const UpdatedTensors& tensors, const RankFile& rank) {
  const DialectHyper& h = tensors.step.hyper;
  const UpdateSetup setup = setup_of(tensors.step, false);
  UpdateBounds bounds(setup.hyper, setup.t);
  bounds.set_betas(setup.beta1, setup.beta2);
  long double both = 0, wanted = 0;
  for (const StepTensor& t : tensors.step.tensors) {
    for (std::size_t i = 0; i < t.numel(); ++i) {
      const ElementBound want = bound_at(bounds, t, i).master;
      const auto p = static_cast<long double>(t.before.master[i]);
      if (!want.judged || !std::isfinite(t.after.master[i])) return "";
      both += (want.exact - p) * (static_cast<long double>(t.after.master[i]) - p);
      wanted += (want.exact - p) * (want.exact - p);
    }
  }
  if (wanted == 0) return "";
  const long double factor = both / wanted;
  if (!(std::fabs(factor - 1) > 1e-3L)) return "";
  for (const StepTensor& t : tensors.step.tensors) {
    for (std::size_t i = 0; i < t.numel(); ++i) {
      const ElementBound want = bound_at(bounds, t, i).master;
      const auto p = static_cast<long double>(t.before.master[i]);
      const long double moved = static_cast<long double>(t.after.master[i]) - p;
      const long double expected = factor * (want.exact - p);
      const long double allowed =
          1e-4L * std::fabs(expected) + 0x1p-22L * std::fabs(p) + 4 * want.allowed;
      if (!(std::fabs(moved - expected) <= allowed)) return "";
    }
  }
  const auto rate = static_cast<double>(factor) * h.lr;
  for (std::size_t g = 0; g < rank.groups.size(); ++g) {
    const double other = rank.groups[g].hyper.lr;
    if (!rank.groups[g].is_other && other != h.lr && std::fabs(rate - other) <= 1e-3 * other)
      return fmt::format("as if lr were {:g}, that of group {}", other, g);
  }
  return fmt::format("as if lr were {:.4g}, {:.4g} times the given one", rate,
                     static_cast<double>(factor));
}

std::string rule_note(const RecordedStep& step, const std::string& text) {
  return std::string(traits_of(step.hyper.rule).name) + ": " + text;
}

/// The first dialect that has every result, with the formula of its loops or of their remainders: blocks of a tensor do
/// not show which elements are in a remainder. "" for none.
std::string dialect_of_blocks(const RecordedStep& step) {
  const std::vector<BufferGrid> grids = grids_of(step);
  for (const Dialect& dialect : all_dialects()) {
    if (!dialect.takes(step.hyper) || dialect.tail_width == 0) continue;
    const std::vector<BufferForm> forms = forms_of(dialect, step);
    bool all = true;
    for (std::size_t k = 0; k < grids.size() && all; ++k) {
      const auto candidate = [&](const std::string& text) -> const Candidate& {
        return *std::ranges::find(grids[k].candidates, text, &Candidate::text);
      };
      const Candidate &body = candidate(forms[k].body), &tail = candidate(forms[k].tail);
      for (const StepTensor& t : step.tensors) {
        const std::vector<float>& got = after(t, grids[k].buffer);
        for (std::size_t i = 0; i < t.numel() && all; ++i)
          all = same_value(body.value(t, i), got[i]) || same_value(tail.value(t, i), got[i]);
      }
    }
    if (all) return dialect.name;
  }
  return "";
}

std::int64_t num_results(const RecordedStep& step) {
  return step.numel() * static_cast<std::int64_t>(step_buffers(step.hyper).size());
}

void judge_tensors(const UpdatedTensors& tensors, const RankFile& rank, RunFindings& found) {
  const auto r = static_cast<std::size_t>(rank.rank);
  const RecordedStep& step = tensors.step;
  if (step.numel() == 0) return;
  const Identification identified = identify(step);
  if (!identified.fits.empty()) {
    const std::vector<std::string> names = shown_names(identified.fits);
    found.note(rule_note(step, identified.tells ? names.front() : "the bits of every dialect"));
    found.add_right(num_results(step), 0);
    return;
  }
  if (identified.legal()) {
    found.note(rule_note(step, "right in a legal order that has no name"));
    found.add_right(num_results(step), *identified.share);
    return;
  }
  if (step.hyper.rule == UpdateRule::lamb) {
    found.add_scalar(r, step.tensors.front().name, "is not the update of lamb", HUGE_VAL,
                     identification_line(identified), "the step of a library that is known");
    return;
  }
  if (const std::string dialect = dialect_of_blocks(step); !dialect.empty()) {
    found.note(rule_note(step, dialect + ", in blocks"));
    found.add_right(num_results(step), 0);
    return;
  }
  if (!identified.share && !tensors.has_16_bit_masters()) {
    found.note(rule_note(step, "not judged: settings outside the conditions of the bound"));
    return;
  }
  // Betas as the program has them, whichever gives fewer differences.
  RunFindings given = found, rounded = found;
  judge_elements(tensors, r, false, given);
  judge_elements(tensors, r, true, rounded);
  RunFindings judged = rounded.differing() < given.differing() ? rounded : given;
  if (judged.differing() > found.differing() && tensors.has_16_bit_states() &&
      !identified.unchanged) {
    found.note(rule_note(step, "not judged: the whole state has 16 bits"));
    return;
  }
  if (judged.differing() == found.differing())
    judged.note(rule_note(step, "a legal order, rounded to 16 bits"));
  const bool first = !found.has_first() && judged.has_first();
  found = std::move(judged);
  if (!first) return;
  if (identified.unchanged)
    found.hint("as if the step had not been applied: nothing changed");
  else if (!identified.wrong.empty())
    found.hint(as_if(identified.wrong));
  else
    found.hint(wrong_rate(tensors, rank));
}

/// One parameter of a rank as a tensor of a step; nothing if it is not recorded.
std::optional<StepTensor> updated_tensor(const RankFile& rank, const RunParameter& parameter,
                                         DType& dtype, DType& state_dtype, bool& is_first) {
  const std::optional<RunValues> grad = rank.read("before.grad", parameter);
  if (!grad) return std::nullopt;
  StepTensor tensor;
  tensor.name = parameter.name;
  tensor.grad = grad->values;
  is_first = false;
  for (const std::string& buffer : run_buffers(rank.group_of(parameter))) {
    const auto before = rank.read("before." + buffer, parameter);
    const auto after = rank.read("after." + buffer, parameter);
    if (!after) return std::nullopt;
    if (buffer == "master")
      dtype = after->dtype;
    else if (state_dtype == DType::fp32)
      state_dtype = after->dtype;
    step_buffer(tensor.after, buffer) = after->values;
    if (before)
      step_buffer(tensor.before, buffer) = before->values;
    else if (buffer == "momentum_buffer")
      is_first = true;
    else if (buffer == "master")
      return std::nullopt;
    else  // the first update creates it
      step_buffer(tensor.before, buffer).assign(tensor.grad.size(), 0.0F);
  }
  return tensor;
}

/// A parameter without a gradient is not updated.
void judge_without_gradient(const RunStep& step, std::size_t r, std::size_t p, RunFindings& found) {
  const RankFile& rank = step.ranks[r];
  const RunParameter& parameter = rank.parameters[p];
  for (const std::string& buffer : run_buffers(rank.group_of(parameter))) {
    const auto before = rank.read("before." + buffer, parameter);
    const auto after = rank.read("after." + buffer, parameter);
    if (!before || !after) continue;
    const RunPlace place{r,     p,           "after." + buffer, "changed without a gradient",
                         false, after->dtype};
    for (std::size_t i = 0; i < after->values.size(); ++i)
      found.add(place, static_cast<std::int64_t>(i),
                same_value(before->values[i], after->values[i]) ? 0 : HUGE_VAL, after->values[i],
                before->values[i]);
  }
}

/// t of every rank: one more than in the step before, the same on all ranks.
void judge_counts(const RunStep& step, const RunStep* before, RunFindings& found) {
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    const std::vector<std::size_t> owners = step.owners(p);
    if (owners.empty()) continue;
    const bool updated = step.ranks.front().applied && step.has_gradient(p);
    std::optional<std::int64_t> was;
    if (before != nullptr && p < before->num_parameters() &&
        before->parameter(p).name == step.parameter(p).name) {
      const std::vector<std::size_t> then = before->owners(p);
      if (!then.empty()) was = before->parameter(p, then.front()).t;
    }
    const std::int64_t want = was ? *was + (updated ? 1 : 0) : step.parameter(p, owners.front()).t;
    for (const std::size_t r : owners) {
      const std::int64_t t = step.parameter(p, r).t;
      if (t == want) continue;  // alone it is no update
      const bool first = !found.has_first();
      found.add_scalar(r, "t of " + step.parameter(p, r).name,
                       was ? "does not follow the step before" : "is not that of the other ranks",
                       HUGE_VAL, std::to_string(t), std::to_string(want));
      if (!first) continue;
      if (was && t == *was && updated)
        found.hint("as if the step count had not increased");
      else if (was && t == *was + 1 && !updated)
        found.hint("as if the skipped step had been counted");
      else if (was && t <= 1)
        found.hint("as if the step count were lost on resume");
    }
  }
}

}  // namespace

RunFindings judge_update(const RunStep& step, const RunStep* before) {
  RunFindings found(step, RunPhase::update);
  bool recorded = false;
  for (std::size_t p = 0; p < step.num_parameters(); ++p)
    recorded = recorded || step.any_has("before.grad", p);
  bool any_gradient = recorded;
  for (std::size_t p = 0; p < step.num_parameters(); ++p)
    any_gradient = any_gradient || step.any_has("reduced", p);
  if (any_gradient || !step.ranks.front().applied) judge_counts(step, before, found);
  if (!recorded) found.missing("before.grad");
  if (!step.ranks.front().applied) {
    found.note("a skipped step");
    return found;
  }
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const RankFile& rank = step.ranks[r];
    for (std::size_t g = 0; g < rank.groups.size(); ++g) {
      if (rank.groups[g].text == step.ranks.front().groups[g].text) continue;
      found.add_scalar(r, fmt::format("settings of group {}", g), "are not those of rank 0",
                       HUGE_VAL, rank.groups[g].text, step.ranks.front().groups[g].text);
    }
    if (!recorded || !rank.applied) continue;
    std::map<std::tuple<std::size_t, std::int64_t, bool>, UpdatedTensors> alike;
    for (std::size_t p = 0; p < step.num_parameters(); ++p) {
      const RunParameter& parameter = rank.parameters[p];
      if (parameter.owned.empty()) continue;
      const RunGroup& group = rank.group_of(parameter);
      if (!rank.has("before.grad", parameter)) {
        judge_without_gradient(step, r, p, found);
        continue;
      }
      if (group.is_other) {
        found.missing("the rule of " + parameter.name);
        continue;
      }
      if (group.hyper.rule == UpdateRule::muon) continue;  // judge_muon
      if (group.hyper.rule == UpdateRule::lamb && numel_of(parameter.owned) != parameter.numel) {
        found.missing("whole tensors, which the norms of lamb need");
        continue;
      }
      DType dtype = DType::fp32;
      DType state_dtype = DType::fp32;
      bool is_first = false;
      std::optional<StepTensor> tensor =
          updated_tensor(rank, parameter, dtype, state_dtype, is_first);
      if (!tensor) {
        found.missing("before.* and after.*");
        continue;
      }
      if (group.hyper.rule != UpdateRule::sgd && parameter.t < 1) {
        found.add_scalar(r, "t of " + parameter.name, "does not count this update", HUGE_VAL,
                         std::to_string(parameter.t), "1 or more");
        found.hint("as if the step count had not increased");
        continue;
      }
      UpdatedTensors& tensors = alike[{parameter.group, parameter.t, is_first}];
      tensors.step.hyper = group.hyper;
      tensors.step.hyper.t = std::max<std::int64_t>(parameter.t, 1);
      tensors.step.is_first = is_first;
      tensors.step.tensors.push_back(std::move(*tensor));
      tensors.parameters.push_back(p);
      tensors.dtypes.push_back(dtype);
      tensors.state_dtypes.push_back(state_dtype);
    }
    for (const auto& [settings, tensors] : alike) judge_tensors(tensors, rank, found);
  }
  if (recorded) judge_muon(step, found);
  return found;
}

}  // namespace zeroproof::verification
