#pragma once
// The numeric contract and the notes on the papers, which were copied into this program when it was built.

#include <optional>
#include <string>
#include <vector>

namespace zeroproof::verification {

struct Document {
  std::string file;  ///< "common/CONTRACT.md", "papers/zero.md"
  std::string content;
};

/// common/CONTRACT.md, then papers/*.md.
const std::vector<Document>& documents();

/// A part of a document: a rule with its heading, or the passage of a label.
struct Passage {
  std::string name;   ///< "R12", "ZeRO:local"
  std::string title;  ///< of a rule: "Global norm and clip coefficient"
  std::string file;
  std::vector<std::string> lines;  ///< Markdown without the heading or the label
};

/// R1, R2, ... in the order of the contract.
const std::vector<Passage>& rules();

/// Every bold label of the notes: its paragraph, with the equations or the table that follow.
const std::vector<Passage>& labels();

/// The passage of that name, or nullptr. Case does not matter, nor do brackets around it.
const Passage* find_passage(const std::vector<Passage>& passages, const std::string& name);

/// True if a text names a passage: "R1" is not in "R12", nor "ZeRO:node" in "[ZeRO:nodes]".
bool cites(const std::string& text, const std::string& name);

/// Markdown for a terminal of `width` columns: paragraphs are filled, tables and equations keep their lines.
std::string filled(const std::vector<std::string>& lines, std::size_t width,
                   const std::string& indent);

}  // namespace zeroproof::verification
