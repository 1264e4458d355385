#include "verification/tools/train/checkpoints/checkpoint_diff.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t piece_numel = std::int64_t{1} << 18;
constexpr std::size_t most_rows = 20;

std::string shown(const Json& about, const char* key) {
  return about.contains(key) ? about.at(key).dump() : "nothing";
}

float value_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

void compare_words(const CheckpointManifest& a, const CheckpointManifest& b,
                   std::vector<std::string>& words) {
  const auto look = [&](const std::string& what, const std::string& first,
                        const std::string& second) {
    if (first != second) words.push_back(fmt::format("{:<12} {}  and  {}", what, first, second));
  };
  look("contract", a.contract, b.contract);
  look("step", std::to_string(a.step), std::to_string(b.step));
  for (const char* key : {"workload", "dtype", "text"})
    look(key, shown(a.about, key), shown(b.about, key));
  if (shown(a.about, "settings") != shown(b.about, "settings"))
    words.emplace_back("settings     differ");
  const bool counters = a.about.contains("state") && b.about.contains("state");
  if (!counters) return;
  for (const Json::Member& member : a.about.at("state").members())
    look(member.name, member.value.dump(), shown(b.about.at("state"), member.name.c_str()));
}

void compare_buffer(const CheckpointReader& first, const CheckpointReader& second,
                    const std::string& state, std::int64_t tensor, CheckpointDifference& result) {
  const CheckpointTensor& of = first.manifest().tensors[tensor];
  const std::int64_t whole = numel_of(state, of);
  Comparison all;
  std::vector<float> a, b;
  for (std::int64_t done = 0; done < whole;) {
    const std::int64_t count = std::min(piece_numel, whole - done);
    a.resize(count);
    b.resize(count);
    first.read(state, tensor, done, a);
    second.read(state, tensor, done, b);
    Comparison part =
        compare({a.data(), DType::fp32, count}, {b.data(), DType::fp32, count}, 0, count);
    if (part.first) part.first->index += done;
    if (part.last_index >= 0) part.last_index += done;
    all.add(part);
    done += count;
  }
  result.compared += all.compared;
  result.differing += all.differing;
  if (all.differing > 0) result.buffers.push_back({state, of.name, all});
}

}  // namespace

CheckpointDifference compare_checkpoints(const CheckpointReader& first,
                                         const CheckpointReader& second) {
  CheckpointDifference result;
  const CheckpointManifest &a = first.manifest(), &b = second.manifest();
  compare_words(a, b, result.words);
  if (a.tensors != b.tensors) {
    result.words.emplace_back("tensors      are those of different models");
    return result;
  }
  std::set<std::string> states;
  for (const CheckpointPiece& piece : a.pieces) states.insert(piece.state);
  for (const CheckpointPiece& piece : b.pieces) states.insert(piece.state);
  for (const std::string& state : states) {
    if (!first.has(state) || !second.has(state)) {
      result.words.push_back(
          fmt::format("{:<12} is only in the {}", state, first.has(state) ? "first" : "second"));
      continue;
    }
    for (std::size_t t = 0; t < a.tensors.size(); ++t)
      compare_buffer(first, second, state, static_cast<std::int64_t>(t), result);
  }
  return result;
}

std::string to_text(const CheckpointDifference& difference, bool all_rows) {
  std::string text;
  for (const std::string& line : difference.words) text += line.substr(0, 99) + "\n";
  if (!difference.buffers.empty())
    text += fmt::format("{:<15} {:<33} {:>9} {:>9}  values there\n", "buffer", "tensor",
                        "differing", "first at");
  std::size_t rows = 0;
  for (const BufferDifference& buffer : difference.buffers) {
    if (!all_rows && rows++ == most_rows) {
      text += fmt::format("... and {} more that differ\n", difference.buffers.size() - most_rows);
      break;
    }
    const Difference& first = *buffer.bits.first;
    text += fmt::format("{:<15} {:<33} {:>9} {:>9}  {:.6g} and {:.6g}\n", buffer.state,
                        buffer.tensor, grouped(buffer.bits.differing), first.index,
                        value_of(first.reference_bits), value_of(first.candidate_bits));
  }
  text += fmt::format("{} of {} elements differ\n", grouped(difference.differing),
                      grouped(difference.compared));
  return text;
}

}  // namespace zeroproof::verification
