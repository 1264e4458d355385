#include "verification/cli/explain/explain_text.hpp"

#include <unistd.h>

#include "verification/cli/program/contract_text.hpp"
#include "verification/report/progress.hpp"

namespace zeroproof::verification {

std::string heading(const std::string& text) {
  return wants_colour(STDOUT_FILENO) ? "\033[1m" + text + "\033[0m" : text;
}

std::string labelled(const std::string& label, const std::vector<std::string>& words,
                     const std::string& separator) {
  std::string line = "  " + label;
  line.resize(14, ' ');
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? separator : "");
    if (line.size() + word.size() > explain_columns && line.size() > 14) {
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = std::string(14, ' ');
    }
    line += word + " ";
  }
  return out + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::string block_of(const std::string& type) {
  return wrapped(doc_block(type), explain_columns, "  ");
}

std::string fault_text(const Fault& fault) {
  return "    " + std::string(fault.id) + "\n" +
         wrapped({std::string(fault.summary)}, explain_columns, "        ");
}

}  // namespace zeroproof::verification
