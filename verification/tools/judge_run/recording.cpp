#include "verification/tools/judge_run/recording.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "common/base/printable.hpp"

namespace zeroproof::verification {
namespace {

/// The digits of `text` as a number, if it is nothing else.
std::optional<std::int64_t> digits_only(const std::string& text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc{} && rest == text.data() + text.size() && !text.empty() &&
                    text.front() != '-';
  return good ? std::optional(value) : std::nullopt;
}

struct FileName {
  std::int64_t step = 0, rank = 0;
};

/// Nothing for a file that is not of a recording, such as one in the making.
std::optional<FileName> parse_file_name(const std::string& folder, const std::string& name) {
  const std::string suffix = ".safetensors", middle = ".rank", begin = "step";
  if (!name.starts_with(begin) || !name.ends_with(suffix)) return std::nullopt;
  const std::size_t at = name.find(middle);
  std::optional<std::int64_t> step, rank;
  if (at != std::string::npos && at + middle.size() + suffix.size() <= name.size()) {
    const std::string digits = name.substr(begin.size(), at - begin.size());
    const std::size_t from = at + middle.size();
    const std::string of_rank = name.substr(from, name.size() - suffix.size() - from);
    if (digits.size() >= 6 && (digits.size() == 6 || digits.front() != '0'))
      step = digits_only(digits);
    if (of_rank == "0" || (!of_rank.empty() && of_rank.front() != '0')) rank = digits_only(of_rank);
  }
  if (!step || !rank)
    refuse_recording(folder, shown_name(name) + " is no name of a recorded step",
                     "a file has the name step000003.rank1.safetensors",
                     "rename it, or move it elsewhere");
  return FileName{*step, *rank};
}

template <class Value>
void require_equal(const RankFile& first, const RankFile& other, const char* what, const Value& a,
                   const Value& b) {
  if (a == b) return;
  refuse_recording(other.path,
                   std::string(what) + " is not that of rank " + std::to_string(first.rank),
                   "all ranks of a step describe one training", "record all ranks of one run");
}

void require_same_parameters(const RankFile& first, const RankFile& other) {
  require_equal(first, other, "the number of parameters", first.parameters.size(),
                other.parameters.size());
  for (std::size_t p = 0; p < first.parameters.size(); ++p) {
    const RunParameter &a = first.parameters[p], &b = other.parameters[p];
    const std::string of = " of parameter " + std::to_string(p);
    require_equal(first, other, ("the name" + of).c_str(), a.name, b.name);
    require_equal(first, other, ("the shape" + of).c_str(), a.shape, b.shape);
    require_equal(first, other, ("the group" + of).c_str(), a.group, b.group);
    require_equal(first, other, ("the recorded elements (leaf)" + of).c_str(), a.leaf, b.leaf);
    require_equal(first, other, ("replicated" + of).c_str(), a.replicated, b.replicated);
  }
}

/// Each recorded element has one owner, or all ranks.
void require_owners(const RunStep& step, std::size_t p) {
  const RunParameter& parameter = step.parameter(p);
  struct Owned {
    RunBlock block;
    std::size_t rank;
  };
  std::vector<Owned> all;
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const RunParameter& mine = step.parameter(p, r);
    if (parameter.replicated && mine.owned != parameter.leaf)
      refuse_recording(step.ranks[r].path,
                       shown_name(mine.name) + " is replicated and not owned as a whole",
                       "every rank updates every recorded element of it",
                       "write owned like leaf, or replicated as false");
    for (const RunBlock& block : mine.owned) all.push_back({block, r});
  }
  if (parameter.replicated) return;
  std::ranges::sort(all, {}, [](const Owned& o) { return o.block.start; });
  std::int64_t end = 0;
  RunBlocks joined;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto& [block, rank] = all[k];
    if (k > 0 && block.start < end)
      refuse_recording(
          step.ranks[rank].path,
          "element " + std::to_string(block.start) + " of " + shown_name(parameter.name) +
              " is owned by rank " + std::to_string(all[k - 1].rank) + " too",
          "one rank updates it, or all do", "write blocks without overlap, or replicated: true");
    end = block.end();
    if (!joined.empty() && joined.back().end() == block.start)
      joined.back().length += block.length;
    else
      joined.push_back(block);
  }
  if (joined == parameter.leaf) return;
  const std::vector<std::int64_t> owned = elements_of(joined), leaf = elements_of(parameter.leaf);
  const auto [a, b] = std::ranges::mismatch(owned, leaf);
  const bool gap = b != leaf.end() && (a == owned.end() || *b < *a);
  refuse_recording(step.ranks.front().path,
                   "element " + std::to_string(gap ? *b : *a) + " of " +
                       shown_name(parameter.name) + (gap ? " has no owner" : " is not in leaf"),
                   "the ranks together own what is recorded (leaf, by default all)",
                   gap ? "add it to owned of the rank that updates it" : "add it to leaf");
}

/// A gradient of a micro-batch that some ranks have and others do not is no sum.
void require_complete_leaves(const RunStep& step, std::size_t p) {
  const RankFile* with = nullptr;
  for (const RankFile& rank : step.ranks) {
    if (rank.has("leaf.0", rank.parameters[p])) with = &rank;
  }
  if (with == nullptr) return;
  for (const RankFile& rank : step.ranks) {
    for (std::int64_t m = 0; m < rank.micro_batches; ++m) {
      const std::string kind = "leaf." + std::to_string(m);
      if (rank.has(kind, rank.parameters[p])) continue;
      refuse_recording(rank.path,
                       "there is no tensor " + shown_name(kind + "." + rank.parameters[p].name) +
                           ", and rank " + std::to_string(with->rank) +
                           " has gradients of this parameter",
                       "the sum over ranks and micro-batches needs all of them",
                       "write zeros for a micro-batch without a gradient");
    }
  }
}

}  // namespace

std::vector<std::size_t> RunStep::owners(std::size_t p) const {
  std::vector<std::size_t> found;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!parameter(p, r).owned.empty()) found.push_back(r);
  }
  return found;
}

bool RunStep::any_has(const std::string& kind, std::size_t p) const {
  return std::ranges::any_of(owners(p),
                             [&](std::size_t r) { return ranks[r].has(kind, parameter(p, r)); });
}

bool RunStep::all_have(const std::string& kind, std::size_t p) const {
  return std::ranges::all_of(owners(p),
                             [&](std::size_t r) { return ranks[r].has(kind, parameter(p, r)); });
}

std::map<std::int64_t, std::vector<std::string>> recorded_steps(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error)
    refuse_recording(folder, "the folder cannot be read: " + error.message(),
                     "a recording is a folder", "name the folder that the recorder wrote");
  std::map<std::int64_t, std::map<std::int64_t, std::string>> found;
  for (const std::filesystem::directory_entry& entry : entries) {
    const std::optional<FileName> name = parse_file_name(folder, entry.path().filename().string());
    if (name) found[name->step][name->rank] = entry.path().string();
  }
  if (found.empty())
    refuse_recording(folder, "there is no recorded step",
                     "a recording has one file for each rank "
                     "and step, step000001.rank0.safetensors",
                     "name the folder that the recorder wrote");
  std::map<std::int64_t, std::vector<std::string>> steps;
  for (const auto& [step, ranks] : found) {
    std::int64_t next = 0;
    for (const auto& [rank, file] : ranks) {
      if (rank != next++)
        refuse_recording(
            folder,
            "step " + std::to_string(step) + " has no file of rank " + std::to_string(next - 1),
            "a step is judged over all ranks",
            "record every rank, or remove the files of this step");
      steps[step].push_back(file);
    }
  }
  return steps;
}

RunStep read_run_step(const std::vector<std::string>& files) {
  RunStep step;
  for (const std::string& file : files) {
    step.ranks.emplace_back(file);
    const RankFile& rank = step.ranks.back();
    const std::string name = std::filesystem::path(file).filename().string();
    const std::optional<FileName> says = parse_file_name(file, name);
    if (!says || says->step != rank.step || says->rank != rank.rank)
      refuse_recording(
          file,
          "it is of step " + std::to_string(rank.step) + ", rank " + std::to_string(rank.rank),
          "its name says otherwise", "name the file by its step and rank");
    if (rank.world != static_cast<std::int64_t>(files.size()))
      refuse_recording(file,
                       "world is " + std::to_string(rank.world) +
                           ", and the step has the files "
                           "of " +
                           std::to_string(files.size()) + " ranks",
                       "a step is judged over all ranks",
                       "record every rank, or remove the files of this step");
    const RankFile& first = step.ranks.front();
    require_equal(first, rank, "reduction", first.mean, rank.mean);
    require_equal(first, rank, "max_norm", first.max_norm, rank.max_norm);
    require_equal(first, rank, "norm_type", first.norm_type, rank.norm_type);
    require_equal(first, rank, "clip_eps", first.clip_eps, rank.clip_eps);
    require_equal(first, rank, "the number of groups", first.groups.size(), rank.groups.size());
    require_same_parameters(first, rank);
  }
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    require_owners(step, p);
    require_complete_leaves(step, p);
  }
  return step;
}

}  // namespace zeroproof::verification
