// zeroproof explain R12, ZeRO:local, erratum 46: rules of the contract, labels of the notes, and errata.

#include <algorithm>

#include "verification/cli/explain/explain_text.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/document_text.hpp"
#include "verification/cli/program/errata_text.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {
namespace {

/// Operations whose doc block names it.
std::vector<std::string> ops_citing(const std::string& name) {
  std::vector<std::string> found;
  for (const Op& op : all_ops()) {
    const std::vector<std::string> block = doc_block(op.type);
    if (std::any_of(block.begin(), block.end(),
                    [&](const std::string& line) { return cites(line, name); }))
      found.push_back(op.name);
  }
  return found;
}

std::vector<std::string> passages_citing(const std::vector<Passage>& passages,
                                         const std::string& name) {
  std::vector<std::string> found;
  for (const Passage& passage : passages) {
    const bool there = std::any_of(passage.lines.begin(), passage.lines.end(),
                                   [&](const std::string& line) { return cites(line, name); });
    const std::string shown =
        passage.file == documents().front().file ? passage.name : "[" + passage.name + "]";
    if (there && passage.name != name) found.push_back(shown);
  }
  return found;
}

std::string list_of(const std::string& label, const std::vector<std::string>& words) {
  return words.empty() ? "" : labelled(label, words, ",");
}

}  // namespace

std::string explain_rule(const Passage& rule) {
  std::string out = heading(rule.name + " " + rule.title) + "\n\n" +
                    filled(rule.lines, explain_columns, "  ") + "\n";
  out += labelled("from",
                  {rule.file, "(numeric", "contract", std::to_string(contract_version) + ")"}, "");
  out += list_of("operations", ops_citing(rule.name));
  out += list_of("rules", passages_citing(rules(), rule.name));
  return out + list_of("notes", passages_citing(labels(), rule.name));
}

std::string explain_label(const Passage& label) {
  std::string out =
      heading("[" + label.name + "]") + "\n\n" + filled(label.lines, explain_columns, "  ") + "\n";
  out += labelled("from", {label.file}, "");
  out += list_of("operations", ops_citing("[" + label.name + "]"));
  out += list_of("rules", passages_citing(rules(), "[" + label.name + "]"));
  return out + list_of("notes", passages_citing(labels(), "[" + label.name + "]"));
}

const Erratum* erratum_named(const std::string& text) {
  std::size_t at = 0;
  for (const char* word : {"erratum", "errata"}) {
    if (text.starts_with(word)) at = std::string(word).size();
  }
  if (at == 0) return nullptr;
  if (at < text.size() && text[at] == ' ') ++at;
  for (const Erratum& erratum : errata()) {
    if (std::to_string(erratum.number) == text.substr(at)) return &erratum;
  }
  return nullptr;
}

std::string explain_erratum(const Erratum& erratum) {
  const auto part = [](const std::string& label, const std::string& text) {
    return labelled(label, words_of(text), "");
  };
  return heading("erratum " + std::to_string(erratum.number)) + " (" + erratum.section + ")\n\n" +
         part("claim", erratum.claim) + part("finding", erratum.finding) +
         part("shown by", erratum.shown_by) + part("from", "papers/errata.md");
}

std::string explain_errata() {
  std::string out =
      "Claims in circulation; zeroproof explain erratum N prints the finding on one.\n";
  std::string section;
  for (const Erratum& erratum : errata()) {
    if (erratum.section != section) out += "\n" + heading(erratum.section) + "\n";
    section = erratum.section;
    out += labelled(std::to_string(erratum.number), words_of(erratum.claim), "");
  }
  return out;
}

}  // namespace zeroproof::verification
