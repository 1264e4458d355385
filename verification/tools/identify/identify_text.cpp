#include <algorithm>
#include <cmath>
#include <map>

#include "verification/compare/wrong_formulas.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/identify/identify.hpp"
#include "verification/tools/identify/muon_text.hpp"

namespace zeroproof::verification {
namespace {

std::string counted_text(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string finding_text(const BufferFinding& found) {
  switch (found.kind) {
    case BufferFinding::Kind::formula:
      return found.best.text + "\n";
    case BufferFinding::Kind::two:
      return fmt::format("{}\n    last n mod {}: {}\n", found.best.text, found.tail_width,
                         found.tail_text);
    case BufferFinding::Kind::leaves:
      return fmt::format(
          "{}\n    {} of {} elements follow no formula{}{}\n", found.best.text,
          counted_text(found.best.all()), counted_text(found.best.scanned),
          found.tail_width == 0 ? "" : fmt::format(", all in the last n mod {}", found.tail_width),
          found.unwritten ? "; they were not written" : "");
    case BufferFinding::Kind::none:
      break;
  }
  return fmt::format("no known formula: the nearest differs in {:.1f} % of the elements, {}\n",
                     100 * found.best.share(), found.best.text);
}

/// "1.0312e-01, norms of the tensor"; the distance where it is of interest.
std::string ratio_line(const RatioFinding& r) {
  const std::string name = r.tensor.empty() ? "the tensor" : r.tensor;
  const std::string where = r.part ? fmt::format("{}[{}..{}]", name, r.begin, r.end - 1) : name;
  const bool any = r.low == 0 && std::isinf(r.high);
  std::string text =
      fmt::format("    {:<16} {}{}", where, any ? "" : fmt::format("{:.6g}, ", r.low), r.origin);
  if (!any && r.origin != "norms of the tensor")
    text += fmt::format("; its norms give {:.6g}", r.of_norms);
  if (!any && r.distance(r.of_norms) > 0)
    text += fmt::format(" (apart {:.1e}, bound {:.1e})", r.distance(r.of_norms), r.bound);
  return text + "\n";
}

std::string ratios_text(const std::vector<RatioFinding>& ratios) {
  constexpr std::size_t shown = 8;
  if (ratios.empty()) return "";
  std::string text = "trust ratio, without the learning rate\n";
  std::size_t lines = 0;
  for (const bool wrong : {true, false}) {  // wrong ones first
    for (const RatioFinding& r : ratios) {
      if (r.of_its_norms() == wrong || lines >= shown) continue;
      text += ratio_line(r);
      ++lines;
    }
  }
  if (ratios.size() > shown) text += fmt::format("    and {} more\n", ratios.size() - shown);
  return text;
}

/// "trust ratio: norms of all tensors together, 3 of 3: wrong, or an option that no dialect has".
std::string wrong_ratios(const std::vector<RatioFinding>& ratios) {
  std::map<std::string, int> counts;
  for (const RatioFinding& r : ratios) {
    if (!r.of_its_norms()) ++counts[r.origin];
  }
  std::string text;
  for (const auto& [origin, count] : counts) {
    text += fmt::format("trust ratio: {}, {} of {}: wrong, or an option that no dialect has\n",
                        origin, count, ratios.size());
  }
  return text;
}

std::string joined(const std::vector<std::string>& names, const char* between = ", ") {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : between) + name;
  return text;
}

/// The wrong formulas, or the distance from the right one.
std::string as_if_or(const Identification& found) {
  if (!found.wrong.empty()) return as_if(found.wrong);
  return fmt::format("the error is up to {:.2g} times the bound over all legal orders",
                     *found.share);
}

std::string of_16_bits(const Identification& found) {
  return "every value is a " + found.bits16 +
         " number: the state has 16 bits, and no such dialect is known";
}

std::string verdict(const Identification& found) {
  if (found.unchanged) return "nothing changed: a skipped step, or rates of 0\n";
  if (!found.tells) {
    return "every dialect gives these bits: the step identifies none (gradients or rates of "
           "zero?)\n";
  }
  const std::vector<std::string> names = shown_names(found.fits);
  if (!names.empty()) {
    std::string text = "this is " + names.front();
    for (std::size_t i = 1; i < names.size(); ++i)
      text += (i + 1 < names.size() ? ", " : " or ") + names[i];
    return text + (names.size() > 1 ? ", which this step does not distinguish\n" : "\n");
  }
  if (found.muon && !found.wrong.empty())
    return "not as its settings say: " + joined(found.wrong, "; ") + "\n";
  if (found.muon) {
    std::string text =
        muon_verdict(*found.muon) + "nearest: " + found.nearest + ", which has another\n";
    for (const std::string& choice : found.excluded) text += "  " + choice + "\n";
    return text;
  }
  std::string text;
  if (found.legal()) {
    text = fmt::format(
        "right, without a name: the error is at most {:.2g} of the bound over all legal orders, "
        "and "
        "no dialect has these bits\n",
        *found.share);
  } else if (!found.judged()) {
    text = of_16_bits(found) + "\n";
  } else if (found.share) {
    text = fmt::format("wrong: {}\n", as_if_or(found));
  }
  for (const BufferFinding& buffer : found.buffers) {
    if (found.legal()) break;
    if (buffer.kind == BufferFinding::Kind::none) {
      text += buffer.buffer + ": no known formula has fewer than 1 % of the elements differ\n";
    } else if (buffer.kind == BufferFinding::Kind::leaves) {
      text += buffer.buffer + ": some elements follow no formula\n";
    }
  }
  text += wrong_ratios(found.ratios);
  if (text.empty()) text = "every buffer has a formula, but no dialect has all of them\n";
  if (found.nearest.empty() || found.differences.empty()) return text;
  text += "nearest: " + found.nearest + ", which differs in\n";
  for (const DialectDifference& d : found.differences) {
    text += fmt::format("  {:<15} {} of {} elements, from {}\n", d.buffer,
                        counted_text(d.differing), counted_text(d.scanned), d.theirs);
  }
  return text;
}

/// One name for members of a family, a star where their letters differ: "apex-fused-adam:nn*r".
std::string drawn_together(const std::vector<std::string>& members) {
  std::string pattern = members.front();
  for (const std::string& member : members) {
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (member[i] != pattern[i]) pattern[i] = '*';
    }
  }
  return pattern;
}

}  // namespace

std::vector<std::string> shown_names(const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> families;
  for (const std::string& name : names) {
    const bool again = !families.empty() && name.find(':') != std::string::npos &&
                       family_of(families.back().front()) == family_of(name);
    if (!again) families.emplace_back();
    families.back().push_back(name);
  }
  std::vector<std::string> shown;
  for (const std::vector<std::string>& family : families) shown.push_back(drawn_together(family));
  return shown;
}

std::string identification_text(const RecordedStep& step, const Identification& found) {
  const bool sgd = step.hyper.rule == UpdateRule::sgd;
  std::string text =
      fmt::format("{}{}, {} elements in {} {}{}\n\n", traits_of(step.hyper.rule).name,
                  sgd ? "" : fmt::format(", t = {}", step.hyper.t), counted_text(step.numel()),
                  step.tensors.size(), step.tensors.size() == 1 ? "tensor" : "tensors",
                  step.program.empty() ? "" : ", written by " + step.program);
  for (const BufferFinding& buffer : found.buffers)
    text += buffer.buffer + "\n    " + finding_text(buffer);
  text += ratios_text(found.ratios);
  if (found.muon) text += muon_text(*found.muon);
  return text + "\n" + verdict(found) + "(the update alone; the gradient is taken as given)\n";
}

std::string identification_line(const Identification& found) {
  if (found.unchanged) return "nothing changed";
  if (!found.tells) return "every dialect has these bits";
  if (!found.fits.empty()) return joined(shown_names(found.fits));
  if (found.legal()) return fmt::format("right, without a name: {:.2g} of the bound", *found.share);
  if (!found.judged()) return of_16_bits(found);
  if (found.share) return "wrong: " + as_if_or(found);
  if (found.muon && !found.wrong.empty()) return "none: " + found.wrong.front();
  if (found.muon && !found.muon->hint.empty()) return "none: " + found.muon->hint;
  for (const RatioFinding& ratio : found.ratios) {
    if (!ratio.of_its_norms()) return "none: trust ratio: " + ratio.origin;
  }
  return "none; nearest: " + found.nearest;
}

}  // namespace zeroproof::verification
