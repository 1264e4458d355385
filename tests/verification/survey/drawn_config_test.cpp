// Random legal configurations: verify must pass each of them, and refuse forbidden ones before
// anything runs.

#include <doctest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

#include "common/base/shown.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/survey/drawn_config.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/program/exit_code.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

struct Outcome {
  std::string verdict;  ///< pass, mistrusted, refused, or another status
  std::string why;
};

std::string command_line(const DrawnConfig& config) {
  std::string line = "zeroproof verify";
  for (const std::string& word : config.words) line += " " + word;
  return line;
}

/// The outcome of verify for a configuration, by the code of the command line.
Outcome verified(const DrawnConfig& config) {
  const TemporaryFolder folder;
  std::vector<std::string> words = {"zeroproof", "verify"};
  words.insert(words.end(), config.words.begin(), config.words.end());
  words.insert(words.end(), {"--config", folder.write("drawn.toml", config.toml)});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  CommandSet commands("zeroproof", "");
  const Command verify = commands.add("verify", "");
  const std::shared_ptr<CaseFlags> flags = add_case_flags(verify);
  verify.runs([] { return 0; });
  commands.run(static_cast<int>(argv.size()), argv.data());
  bool began = false;
  try {
    const VerifyOptions options = options_from(*flags);
    const Selection selection = select_cases(options);
    if (selection.size() != 1)
      return {"selects " + std::to_string(selection.size()) + " cases", ""};
    const RunReport report =
        run_selection(options, selection, [&](double, const std::string&) { began = true; });
    const Result& result = report.results.at(0);
    return {std::string(name(result.status)), result.reason};
  } catch (const Error& error) {
    const int code = exit_code_of(error);
    const bool refused = code == 2 && !began;
    return {refused ? "refused" : "exit " + std::to_string(code) + (began ? ", late" : ""),
            error.what()};
  }
}

/// Draws, verifies and counts.
class Survey {
 public:
  void add(std::uint64_t number) {
    DrawnConfig config = draw_config(number);
    Outcome outcome = verified(config);
    // The advice must help.
    for (int times = 0; times < 3 && outcome.verdict == "mistrusted" && follow(outcome.why, config);
         ++times) {
      outcome = verified(config);
    }
    const bool legal = config.illegal.empty();
    ++verdicts_[outcome.verdict];
    for (const auto& [setting, value] : config.settings) ++seen_[setting][value];
    if (!legal) ++seen_["forbidden"][config.illegal];
    if (outcome.verdict == (legal ? "pass" : "refused")) return;
    if (config.uneven && outcome.verdict == "refused" &&
        outcome.why.find("the buckets of TP rank") == 0) {
      ++seen_["refused"]["buckets of an uneven cut"];
      return;
    }
    ++wrong_;
    std::cout << "configuration " << number << " is to be "
              << (legal ? "passed" : "refused, " + config.illegal) << ", and was "
              << outcome.verdict << ": " << outcome.why << "\n  " << command_line(config)
              << " --config drawn.toml\n"
              << config.toml << "\n";
  }

  void print() const {
    for (const auto& [verdict, count] : verdicts_)
      std::cout << "verdict " << verdict << ": " << count << "\n";
    for (const auto& [setting, values] : seen_) {
      if (values.size() > 20) continue;  // seeds
      std::cout << setting << ":";
      for (const auto& [value, count] : values) std::cout << " " << value << " " << count << ",";
      std::cout << "\n";
    }
  }

  int wrong() const { return wrong_; }

 private:
  /// Applies the advice in the reason of a mistrusted run. False without advice.
  bool follow(const std::string& why, DrawnConfig& config) {
    const std::string largest = "the largest norm was ";
    if (const std::size_t said = why.find(largest); said != std::string::npos) {
      const double norm = std::stod(why.substr(said + largest.size()));
      config.words.insert(config.words.end(), {"--max-norm", shown(0.7 * norm)});
      ++seen_["advice"]["--max-norm"];
    } else if (why.find("use a later run.overflow_step") != std::string::npos) {
      replace_number(config.toml, "overflow_step = ", config.settings["steps"]);
      ++seen_["advice"]["run.overflow_step"];
    } else if (why.find("use more --micro-batches") != std::string::npos) {
      *std::next(std::find(config.words.begin(), config.words.end(), "--micro-batches")) = "16";
      replace_number(config.toml, "\nlr = ", "30");
      replace_number(config.toml, "min_lr = ", "30");
      replace_number(config.toml,
                     "\nrates = ", "[30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30]");
      replace_number(config.toml, "idle_tensors = ", "false");
      ++seen_["advice"]["--micro-batches, lr, run.idle_tensors"];
    } else if (why.find("use more --steps") != std::string::npos) {
      *std::next(std::find(config.words.begin(), config.words.end(), "--steps")) = "8";
      ++seen_["advice"]["--steps"];
    } else {
      return false;
    }
    return true;
  }

  static void replace_number(std::string& toml, const std::string& key, const std::string& value) {
    const std::size_t at = toml.find(key);
    if (at == std::string::npos) return;
    const std::size_t begin = at + key.size();
    toml.replace(begin, toml.find('\n', begin) - begin, value);
  }

  std::map<std::string, int> verdicts_;
  std::map<std::string, std::map<std::string, int>> seen_;
  int wrong_ = 0;
};

std::uint64_t from_environment(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("random configurations: 40 of them") {
  Survey survey;
  for (std::uint64_t number = 1; number <= 40; ++number) survey.add(number);
  CHECK(survey.wrong() == 0);
}

// ZP_CONFIGS_FIRST=123 ZP_CONFIGS=1 repeats number 123 alone.
TEST_CASE("slow: random configurations: 2,000 of them") {
  const std::uint64_t first = from_environment("ZP_CONFIGS_FIRST", 1);
  const std::uint64_t count = from_environment("ZP_CONFIGS", 2000);
  Survey survey;
  for (std::uint64_t number = first; number < first + count; ++number) survey.add(number);
  survey.print();
  CHECK(survey.wrong() == 0);
}
