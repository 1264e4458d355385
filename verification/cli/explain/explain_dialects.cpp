// zeroproof explain dialects, zeroproof explain torch-cpu-fused: the known exact arithmetic of
// libraries.

#include <algorithm>

#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/tools/identify/clip.hpp"
#include "verification/tools/identify/dialect.hpp"
#include "verification/tools/identify/formula_text.hpp"
#include "verification/tools/identify/identify.hpp"
#include "verification/tools/identify/muon_text.hpp"
#include "verification/tools/identify/ratio.hpp"

namespace zeroproof::verification {
namespace {

/// A text in lines of a terminal, as the value of a label.
std::string field(const std::string& label, const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return labelled(label, words, "");
}

/// A formula of the body, and of the tail if it is another.
std::string formula(const std::string& label, const std::string& body, const std::string& tail,
                    int width) {
  std::string out = field(label, body);
  if (tail != body) out += field("", "last n mod " + std::to_string(width) + ": " + tail);
  return out;
}

std::string moments_text(const AdamFormula& f, const DialectHyper& h, int width) {
  return formula("exp_avg", first_moment_text(f.first, f.betas, f.coupled_fused, h),
                 first_moment_text(f.first_tail, f.betas, f.coupled_fused, h), width) +
         formula("exp_avg_sq", second_moment_text(f.second, f.betas, f.coupled_fused, h),
                 second_moment_text(f.second_tail, f.betas, f.coupled_fused, h), width);
}

std::string adam_text(const Dialect& d, UpdateRule rule) {
  DialectHyper h;
  h.rule = rule;
  h.weight_decay = 1;
  return moments_text(*d.adam, h, d.tail_width) +
         (d.amsgrad ? field("amsgrad", maximum_text(d.adam->maximum)) : "") +
         field("master", master_text(d.adam->master, h));
}

std::string lamb_text(const Dialect& d) {
  DialectHyper h;
  h.rule = UpdateRule::lamb;
  h.weight_decay = 1;
  return moments_text(d.lamb->moments, h, d.tail_width) +
         field("master", lamb_master_text(d.lamb->master, h)) +
         field("ratio", ratio_text(d.lamb->ratio));
}

std::string sgd_text(const Dialect& d) {
  DialectHyper h;
  h.rule = UpdateRule::sgd;
  h.weight_decay = 1;
  h.momentum = 0.5;
  h.nesterov = true;
  const SgdFormula& f = *d.sgd;
  return formula("momentum", buffer_text(f.buffer, false, f.coupled_fused, h),
                 buffer_text(f.buffer_tail, false, f.coupled_fused, h), d.tail_width) +
         field("master", sgd_master_text(f.nesterov_fused, f.write_fused, f.coupled_fused, h));
}

/// Names of the symbols above, for rules that have them.
std::string symbols(const Dialect& d) {
  std::string text = "fma rounds once, every other operator to fp32.";
  if (d.adam || d.lamb) {
    text +=
        " w and c are 1 - beta1 and 1 - beta2, b is beta; bc = 1 - beta^t, a = lr/bc1, s = "
        "sqrt(bc2), r = "
        "1/s.";
    if (d.adam) text += " L2 (adam): g as in the line of exp_avg.";
    if (d.lamb) {
      text +=
          " lamb: N_w and N_u are the norms of a tensor before the step and of its u; k in the "
          "line of master is the ratio times the factors of the step that are not in u; f = s/bc1.";
    }
    const FirstMoment first = d.adam ? d.adam->first : d.lamb->moments.first;
    if (first == FirstMoment::lerp || first == FirstMoment::lerp_fused) {
      text += " Where w is 1/2 or more the step from m to g is taken from g: (w - 1)*(g - m) + g.";
    }
  }
  if ((d.adam   ? d.adam->master.root
       : d.lamb ? d.lamb->master.root
                : Root::rounded) == Root::mkl_amd) {
    text +=
        " mkl_sqrt, of x: y = RSQRTPS(x), q = x*y, e = 1 - q*y, q' = (q/2)*e + q, y' = (y/2)*e + "
        "y, "
        "q' + (x - q'*q')*(y'/2).";
  }
  if (d.sgd) text += " mu is momentum; without nesterov e is the buffer; the first buffer is g.";
  return text;
}

std::string line(const std::string& name, const std::string& text) {
  std::string out = "  " + name;
  out.resize(std::max<std::size_t>(out.size() + 1, 30), ' ');
  return out + text + "\n";
}

std::string version_of(const Dialect& d) {
  return d.library + (d.version.empty() ? "" : " " + d.version);
}

}  // namespace

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const Dialect& d : all_dialects()) names.push_back(d.name);
  for (const ClipDialect& d : clip_dialects()) names.push_back(d.name);
  for (const ScalerDialect& d : scaler_dialects()) names.push_back(d.name);
  return names;
}

std::string explain_dialects() {
  std::string out = wrapped(
      {"The known exact arithmetic of optimizers: proved by this project's "
       "tests, recorded from the library, compared with it value by value, or only read in its "
       "source. "
       "zeroproof identify names the dialect of a step."},
      explain_columns, "");
  out += "\n" + heading("update") + "\n";
  std::string last;
  for (const Dialect& d : all_dialects()) {
    const std::string family = family_of(d.name);
    if (family == last) continue;
    last = family;
    const auto members = std::ranges::count(all_dialects(), family,
                                            [](const Dialect& x) { return family_of(x.name); });
    out += line(members == 1 ? d.name : family + ":****",
                version_of(d) + ", " + std::string(name(d.evidence)) +
                    (members == 1 ? "" : ", " + std::to_string(members) + " candidates"));
  }
  out += "\n" + heading("clip") + "\n";
  for (const ClipDialect& d : clip_dialects())
    out += line(d.name, d.library + ", " + std::string(name(d.evidence)));
  out += "\n" + heading("loss scale") + "\n";
  for (const ScalerDialect& d : scaler_dialects())
    out += line(d.name, d.library + ", " + std::string(name(d.evidence)));
  return out;
}

std::string explain_dialect(const std::string& what) {
  for (const ClipDialect& d : clip_dialects()) {
    if (d.name == what) {
      return heading(d.name) + "\n\n" + field("library", d.library) +
             field("evidence", std::string(name(d.evidence))) + field("factor", d.text);
    }
  }
  for (const ScalerDialect& d : scaler_dialects()) {
    if (d.name == what) {
      return heading(d.name) + "\n\n" + field("library", d.library) +
             field("evidence", std::string(name(d.evidence))) + field("rule", d.text);
    }
  }
  const Dialect* found = find_dialect(what);
  if (found == nullptr) return "";
  const Dialect& d = *found;
  std::string out = heading(d.name) + "\n\n" + field("library", version_of(d)) +
                    field("build", d.build) + field("evidence", std::string(name(d.evidence))) +
                    field("note", d.note);
  if (d.adam) out += "\n" + heading("adamw") + "\n" + adam_text(d, UpdateRule::adamw);
  if (d.adam) out += "\n" + heading("adam") + " (L2)\n" + adam_text(d, UpdateRule::adam);
  if (d.sgd) out += "\n" + heading("sgd") + "\n" + sgd_text(d);
  if (d.lamb) out += "\n" + heading("lamb") + "\n" + lamb_text(d);
  if (d.muon) {
    out += "\n" + heading("muon") + "\n";
    for (const auto& [label, text] : muon_choices(*d.muon)) out += field(label, text);
    return out;
  }
  return out + "\n" + wrapped({symbols(d)}, explain_columns, "  ");
}

}  // namespace zeroproof::verification
