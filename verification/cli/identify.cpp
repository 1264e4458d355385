#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "verification/cli/commands.hpp"
#include "verification/tools/identify/identify.hpp"

namespace zeroproof::verification {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

/// Names that are in both.
std::vector<std::string> in_both(const std::vector<std::string>& some,
                                 const std::vector<std::string>& others) {
  std::vector<std::string> both;
  for (const std::string& name : some) {
    if (std::ranges::find(others, name) != others.end()) both.push_back(name);
  }
  return both;
}

int identify_one(const std::string& file) {
  const RecordedStep step = read_step(file);
  const Identification found = identify(step);
  print(identification_text(step, found));
  if (!found.judged()) return 4;
  return found.named() || found.legal() ? 0 : 1;
}

/// Steps of one program: a line for each, and the dialects that have the bits of all. Steps that show
/// nothing do not count.
int identify_many(const std::vector<std::string>& files) {
  std::optional<std::vector<std::string>> common;
  std::int64_t judged = 0, legal = 0, wrong = 0, unknown = 0, elements = 0;
  for (const std::string& file : files) {
    const RecordedStep step = read_step(file);
    const Identification found = identify(step);
    print(file + ": " + identification_line(found) + "\n");
    elements += step.numel();
    if (!found.judged()) continue;
    ++judged;
    legal += found.legal() ? 1 : 0;
    if (!found.named() && !found.legal()) ++(found.share ? wrong : unknown);
    common = common ? in_both(*common, found.fits) : found.fits;
  }
  std::string names;
  for (const std::string& name : shown_names(common.value_or(std::vector<std::string>{})))
    names += (names.empty() ? "" : ", ") + name;
  const std::string verdict = judged == 0 ? "they show nothing"
                              : wrong > 0 ? std::to_string(wrong) + " wrong"
                              : unknown > 0
                                  ? std::to_string(unknown) + " without a dialect or a bound"
                              : !names.empty() ? names
                              : legal > 0      ? "right, without a name"
                                               : "no dialect has the bits of all";
  print("\n" + std::to_string(files.size()) + " steps, " + std::to_string(elements) +
        " elements: " + verdict + "\n(the updates alone; the gradients are taken as given)\n");
  if (judged == 0) return 4;
  return wrong + unknown == 0 && (!names.empty() || legal > 0) ? 0 : 1;
}

}  // namespace

void add_identify(CommandSet& commands) {
  const Command command = commands.add(
      "identify",
      "name the library whose arithmetic computed a step, or the operation without a match");
  const auto files = std::make_shared<std::vector<std::string>>();
  command.required_words(
      "step", *files,
      "safetensors files with one step each: before.grad, before.master, ..., after.master, ... "
      "(several: steps of one program)");
  command.runs([files] {
    return files->size() == 1 ? identify_one(files->front()) : identify_many(*files);
  });
}

}  // namespace zeroproof::verification
