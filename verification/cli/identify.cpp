#include <algorithm>
#include <cstdio>
#include <memory>

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

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : shown_names(names)) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

int identify_one(const std::string& file) {
  const RecordedStep step = read_step(file);
  const Identification found = identify(step);
  print(identification_text(step, found));
  return found.named() ? 0 : 1;
}

/// Steps of one program: a line for each, and the dialects that give the bits of all.
int identify_many(const std::vector<std::string>& files) {
  std::vector<std::string> common;
  bool tells = false;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const RecordedStep step = read_step(files[i]);
    const Identification found = identify(step);
    print(files[i] + ": " + (found.tells ? joined(found.fits) : "tells nothing") + "\n");
    common = i == 0 ? found.fits : in_both(common, found.fits);
    tells = tells || found.tells;
    elements += step.numel();
  }
  print("\n" + std::to_string(files.size()) + " steps, " + std::to_string(elements) +
        " elements: " + (tells ? joined(common) : "they tell nothing") + "\n");
  return tells && !common.empty() ? 0 : 1;
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
