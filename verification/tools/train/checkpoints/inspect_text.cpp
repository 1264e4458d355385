#include "verification/tools/train/checkpoints/inspect_text.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "common/io/checkpoint/checkpoint_names.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

std::string word(const Json& about, const char* key) {
  if (!about.contains(key)) return "unknown";
  const Json& value = about.at(key);
  return sentence(value.kind() == Json::Kind::text ? value.get<std::string>() : value.dump());
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t length : shape)
    text += (text.empty() ? "" : "x") + std::to_string(length);
  return text.empty() ? "scalar" : text;
}

}  // namespace

std::string folder_table(const CheckpointRoot& root) {
  std::string text = "checkpoint       files          bytes  saved on\n";
  for (const std::int64_t step : root.steps()) {
    try {
      const CheckpointReader checkpoint(root, step);
      text += fmt::format("{:<16} {:>5} {:>14}  {}\n", checkpoint_name(step),
                          checkpoint.manifest().files.size(), grouped(checkpoint.num_bytes()),
                          word(checkpoint.manifest().about, "place"));
    } catch (const Error& error) {
      text += fmt::format("{:<16} {}\n", checkpoint_name(step), error.what());
    }
  }
  return text;
}

std::string inspect_text(const CheckpointReader& checkpoint, bool all_rows) {
  const CheckpointManifest& manifest = checkpoint.manifest();
  const Json& about = manifest.about;
  std::string text;
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("{:<13} {}\n", what, value);
  };
  line("step", std::to_string(manifest.step));
  line("run", manifest.run + ", numeric contract " + manifest.contract);
  line("training",
       word(about, "workload") + " " + word(about, "recipe") + " " + word(about, "dtype"));
  line("saved on", word(about, "place"));
  if (about.contains("state")) {
    for (const Json::Member& counter : about.at("state").members()) {
      const bool list = counter.value.kind() == Json::Kind::array;
      const auto count = list ? counter.value.end() - counter.value.begin() : 0;
      if (list && count == 0) continue;
      if (counter.value.kind() ==
          Json::Kind::text) {  // scales and histories: eight digits for every number
        const auto digits = static_cast<std::int64_t>(counter.value.get<std::string>().size());
        line(counter.name.c_str(), fmt::format("{} numbers", grouped(digits / 8)));
        continue;
      }
      line(counter.name.c_str(), list ? fmt::format("of {} tensors", count) : counter.value.dump());
    }
  }
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> states;  // elements, pieces
  std::vector<std::int64_t> elements(manifest.files.size()), pieces(manifest.files.size());
  for (const CheckpointPiece& piece : manifest.pieces) {
    states[piece.state].first += piece.numel;
    ++states[piece.state].second;
    elements[piece.file] += piece.numel;
    ++pieces[piece.file];
  }
  text += "\nbuffer                elements   pieces\n";
  for (const auto& [state, counts] : states)
    text +=
        fmt::format("{:<16} {:>13} {:>8}\n", state, grouped(counts.first), grouped(counts.second));
  text += "\nfile                       elements   pieces          bytes\n";
  for (std::size_t i = 0; i < manifest.files.size(); ++i)
    text +=
        fmt::format("{:<23} {:>11} {:>8} {:>14}\n", manifest.files[i].name, grouped(elements[i]),
                    grouped(pieces[i]), grouped(manifest.files[i].num_bytes));
  if (!all_rows)
    return text + fmt::format("\n{} tensors; --rows lists them\n", manifest.tensors.size());
  text += "\ntensor                                        shape       elements\n";
  for (const CheckpointTensor& tensor : manifest.tensors)
    text += fmt::format("{:<36} {:>14} {:>14}\n", tensor.name, shape_text(tensor.shape),
                        grouped(numel(tensor)));
  return text;
}

}  // namespace zeroproof::verification
