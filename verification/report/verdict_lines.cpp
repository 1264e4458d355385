#include "verification/report/verdict_lines.hpp"

#include <algorithm>

#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t most_failures = 3;

/// "byte_gpt adamw bf16 self threads:4": the words of the ids of some cases, each once.
std::string described(Span<const Result> results) {
  std::vector<std::string> workloads, recipes, dtypes, worlds;
  const auto add = [](std::vector<std::string>& words, std::string word) {
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  };
  for (const Result& result : results) {
    const CaseSpec spec = training_spec(result);
    add(workloads, spec.workload);
    add(recipes, spec.recipe);
    add(dtypes, std::string(name(spec.dtype)));
    add(worlds, spec.world.id());
  }
  std::string text;
  for (const auto* words : {&workloads, &recipes, &dtypes, &worlds}) {
    for (const std::string& word : *words) text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace

std::string status_counts(Span<const Result> results) {
  std::string counts;
  for (int i = 0; i < num_statuses; ++i) {
    const auto status = static_cast<Status>(i);
    const auto count = std::ranges::count(results, status, &Result::status);
    if (count > 0)
      counts += (counts.empty() ? "" : ", ") + grouped(count) + " " + std::string(name(status));
  }
  return counts;
}

std::vector<std::string> verdict_lines(Span<const Result> results) {
  std::vector<std::string> lines;
  if (results.size() == 1) {
    return {std::string(name(results.front().status)) + "  " + results.front().id};
  }
  for (const Result& result : results) {
    if (failed(result.status) && lines.size() < most_failures)
      lines.push_back(std::string(name(result.status)) + "  " + result.id);
  }
  if (!results.empty()) lines.push_back(status_counts(results) + "  " + described(results));
  return lines;
}

}  // namespace zeroproof::verification
