#include "verification/tools/judge_run/rank_file.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "common/io/json.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/tools/identify/recorded_step.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::int64_t largest_integer = std::int64_t{1} << 53;
constexpr std::int64_t largest_world = 4096;
constexpr std::int64_t largest_micro_batches = std::int64_t{1} << 16;
constexpr const char* only_key = "zeroproof_recording";

/// The members of one object of the metadata.
class RunFields {
 public:
  RunFields(const Json& object, std::string where, const std::string& file,
            const std::vector<std::string>& known)
      : object_(object), where_(std::move(where)), file_(file) {
    if (object.kind() != Json::Kind::object)
      refuse_recording(file, where_ + " is no object", "it has keys and values",
                       "write a JSON object");
    for (const Json::Member& member : object.members()) {
      if (std::ranges::find(known, member.name) == known.end())
        refuse_recording(file, where_ + " has the unknown key " + shown_name(member.name),
                         "it would have no effect", suggestion(member.name, known));
    }
  }

  bool given(const char* key) const { return object_.contains(key) && !object_.at(key).is_null(); }

  const Json& at(const char* key) const {
    if (!object_.contains(key))
      refuse_recording(file_, where_ + " has no '" + key + "'", "a step is judged with it",
                       "write it as in verification/tools/judge_run/README.md");
    return object_.at(key);
  }

  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const {
    const Json& value = at(key);
    const auto* number = std::get_if<std::int64_t>(&value.content());
    const auto* natural = std::get_if<std::uint64_t>(&value.content());
    if (natural != nullptr && high >= 0 && *natural <= static_cast<std::uint64_t>(high) &&
        static_cast<std::int64_t>(*natural) >= low)
      return static_cast<std::int64_t>(*natural);
    if (number == nullptr || *number < low || *number > high)
      wrong(key, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    return *number;
  }

  /// A number, or one of the texts "inf" and "nan", which JSON has no numbers for.
  double real(const char* key) const {
    const Json& value = at(key);
    switch (value.kind()) {
      case Json::Kind::integer:
      case Json::Kind::unsigned_integer:
      case Json::Kind::real:
        return value.get<double>();
      default:
        break;
    }
    if (const auto* text = std::get_if<std::string>(&value.content())) {
      if (*text == "inf") return std::numeric_limits<double>::infinity();
      if (*text == "nan") return std::numeric_limits<double>::quiet_NaN();
    }
    wrong(key, "a number, \"inf\" or \"nan\"");
  }

  /// A finite number of a range.
  double number(const char* key, double low, double high) const {
    const double value = real(key);
    if (!(value >= low && value <= high && std::isfinite(value)))
      wrong(key, "a finite number in its range");
    return value;
  }

  bool flag(const char* key) const {
    const auto* value = std::get_if<bool>(&at(key).content());
    if (value == nullptr) wrong(key, "true or false");
    return *value;
  }

  std::string text(const char* key) const {
    const auto* value = std::get_if<std::string>(&at(key).content());
    if (value == nullptr) wrong(key, "a text");
    return *value;
  }

  const Json& list(const char* key) const {
    const Json& value = at(key);
    if (value.kind() != Json::Kind::array) wrong(key, "a list");
    return value;
  }

  [[noreturn]] void wrong(const char* key, const std::string& wanted) const {
    refuse_recording(file_, where_ + ": " + key + " is " + shown_name(at(key).dump()),
                     "a value of another kind or size was found", "write " + wanted);
  }

 private:
  const Json& object_;
  std::string where_;
  const std::string& file_;
};

RunBlocks read_blocks(const RunFields& fields, const char* key, std::int64_t numel) {
  RunBlocks blocks;
  std::int64_t before = 0;
  for (const Json& item : fields.list(key)) {
    RunBlock block{-1, -1};
    if (item.kind() == Json::Kind::array && item.end() - item.begin() == 2) {
      const auto whole = [](const Json& x) -> std::int64_t {
        const auto* number = std::get_if<std::int64_t>(&x.content());
        const auto* natural = std::get_if<std::uint64_t>(&x.content());
        if (number != nullptr) return *number;
        return natural != nullptr && *natural <= largest_integer
                   ? static_cast<std::int64_t>(*natural)
                   : -1;
      };
      block = {whole(item.begin()[0]), whole(item.begin()[1])};
    }
    if (block.start < before || block.length < 0 || block.start > numel ||
        block.length > numel - block.start)
      fields.wrong(key, "[start, length] in ascending order, without overlap, within the " +
                            std::to_string(numel) + " elements of the parameter");
    before = block.end();
    if (block.length == 0) continue;
    if (!blocks.empty() && blocks.back().end() == block.start)
      blocks.back().length += block.length;
    else
      blocks.push_back(block);
  }
  return blocks;
}

RunGroup read_group(const Json& json, const std::string& where, const std::string& file) {
  RunGroup group;
  group.text = json.dump();
  if (json.kind() != Json::Kind::object)
    refuse_recording(file, where + " is no object", "it has the settings of a parameter group",
                     "write a JSON object");
  SafeMetadata settings;
  for (const Json::Member& member : json.members()) {
    const bool is_text = member.value.kind() == Json::Kind::text;
    constexpr std::string_view named[] = {"rule",  "family",  "coefficients",
                                          "scale", "factors", "floor"};
    if (member.value.kind() == Json::Kind::null || member.value.kind() == Json::Kind::array ||
        member.value.kind() == Json::Kind::object ||
        (is_text && std::ranges::find(named, member.name) == std::end(named)))
      refuse_recording(file, where + ": " + member.name + " is " + shown_name(member.value.dump()),
                       "a setting is a number, true or false", "write a JSON number");
    settings[member.name] = is_text ? member.value.get<std::string>() : member.value.dump();
  }
  if (settings.contains("t"))
    refuse_recording(file, where + " has the key t", "it is a property of each parameter",
                     "write it in the objects of parameters");
  const auto rule = settings.find("rule");
  if (rule != settings.end() && rule->second == "other") {
    group.is_other = true;
    return group;
  }
  if (rule == settings.end() || rule->second != "sgd") settings["t"] = "1";
  group.hyper = hyper_of_settings(settings, file + ", " + where);
  return group;
}

RunParameter read_parameter(const Json& json, const std::string& where, const std::string& file,
                            std::size_t num_groups) {
  const RunFields fields(
      json, where, file,
      {"name", "shape", "group", "t", "owned", "leaf", "sum_squares", "replicated"});
  RunParameter p;
  p.name = fields.text("name");
  if (const std::string problem = safetensors_name_problem(p.name);
      p.name.empty() || !problem.empty())
    refuse_recording(file, where + ": its name is " + shown_name(p.name),
                     problem.empty() ? "tensors are found by it" : problem, "choose another name");
  for (const Json& size : fields.list("shape")) {
    const auto* number = std::get_if<std::int64_t>(&size.content());
    const auto* natural = std::get_if<std::uint64_t>(&size.content());
    const bool fits = number != nullptr    ? *number >= 0 && *number <= largest_integer
                      : natural != nullptr ? *natural <= largest_integer
                                           : false;
    if (!fits) fields.wrong("shape", "whole numbers");
    p.shape.push_back(number != nullptr ? *number : static_cast<std::int64_t>(*natural));
  }
  const std::optional<std::int64_t> numel = safetensors_numel(p.shape);
  if (!numel) fields.wrong("shape", "sizes whose product is at most 2^53");
  p.numel = *numel;
  p.group = static_cast<std::size_t>(
      fields.integer("group", 0, static_cast<std::int64_t>(num_groups) - 1));
  p.t = fields.integer("t", 0, largest_integer);
  p.owned = read_blocks(fields, "owned", p.numel);
  p.leaf = p.numel == 0 ? RunBlocks{} : RunBlocks{{0, p.numel}};
  if (fields.given("leaf")) p.leaf = read_blocks(fields, "leaf", p.numel);
  if (fields.given("sum_squares")) {
    p.sum_squares = fields.real("sum_squares");
    if (*p.sum_squares < 0) fields.wrong("sum_squares", "a number of 0 or more");
  }
  p.replicated = fields.given("replicated") && fields.flag("replicated");
  return p;
}

template <class Format>
void widen_values(const SafetensorsReader& reader, const SafeTensor& tensor,
                  std::vector<float>& values) {
  std::vector<Format> narrow(values.size());
  if (!narrow.empty()) reader.read(tensor, 0, std::as_writable_bytes(Span<Format>(narrow)));
  std::ranges::transform(narrow, values.begin(), [](Format x) { return to_float(x); });
}

}  // namespace

void refuse_recording(const std::string& file, const std::string& problem, const std::string& why,
                      const std::string& remedy) {
  fail(ErrorCode::io, file + ": " + problem, why, remedy);
}

std::int64_t numel_of(const RunBlocks& blocks) {
  std::int64_t sum = 0;
  for (const RunBlock& block : blocks) sum += block.length;
  return sum;
}

std::vector<std::int64_t> elements_of(const RunBlocks& blocks) {
  std::vector<std::int64_t> elements;
  elements.reserve(static_cast<std::size_t>(numel_of(blocks)));
  for (const RunBlock& block : blocks) {
    for (std::int64_t i = block.start; i < block.end(); ++i) elements.push_back(i);
  }
  return elements;
}

std::vector<std::string> run_buffers(const RunGroup& group) {
  if (group.is_other)
    return {"master", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer"};
  return step_buffers(group.hyper);
}

RankFile::RankFile(const std::string& path) : path(path) {
  reader_ = std::make_shared<SafetensorsReader>(SafetensorsReader::open(path));
  const SafeMetadata& metadata = reader_->metadata();
  for (const auto& [key, value] : metadata) {
    if (key != only_key && key != "format")
      refuse_recording(path, "the metadata has the unknown key " + shown_name(key),
                       "it would have no effect", suggestion(key, {only_key}));
  }
  if (!metadata.contains(only_key))
    refuse_recording(path, std::string("the metadata has no ") + only_key,
                     "a recording describes itself with it",
                     "record it as in verification/tools/judge_run/README.md");
  Json json;
  try {
    json = Json::parse(metadata.at(only_key));
  } catch (const JsonError& error) {
    refuse_recording(path, std::string(only_key) + " is no JSON", error.what(),
                     "write a JSON object; infinity and NaN are the texts \"inf\" and \"nan\"");
  }
  const RunFields fields(
      json, only_key, path,
      {"version", "program", "rank", "world", "step", "micro_batches", "reduction", "loss_scale",
       "applied", "max_norm", "norm", "norm_type", "clip_eps", "groups", "parameters"});
  if (fields.integer("version", 0, largest_integer) != 1)
    fields.wrong("version", "1, the version that this program reads");
  program = fields.text("program");
  world = fields.integer("world", 1, largest_world);
  rank = fields.integer("rank", 0, world - 1);
  step = fields.integer("step", 1, largest_integer);
  micro_batches = fields.integer("micro_batches", 0, largest_micro_batches);
  const std::string reduction = fields.text("reduction");
  if (reduction != "mean" && reduction != "sum") fields.wrong("reduction", "\"mean\" or \"sum\"");
  mean = reduction == "mean";
  constexpr double tiny = 0x1p-126, large = 1e38;
  if (fields.given("loss_scale")) loss_scale = fields.number("loss_scale", tiny, large);
  applied = fields.flag("applied");
  if (fields.given("max_norm")) max_norm = fields.number("max_norm", 0, large);
  if (fields.given("norm")) norm = fields.real("norm");
  if (fields.given("norm_type")) {
    norm_type = fields.real("norm_type");
    if (!(norm_type > 0) || (norm_type > 100 && std::isfinite(norm_type)))
      fields.wrong("norm_type", "a number above 0 and at most 100, or \"inf\"");
  }
  if (fields.given("clip_eps")) clip_eps = fields.number("clip_eps", 0, large);
  for (const Json& group : fields.list("groups"))
    groups.push_back(read_group(group, "group " + std::to_string(groups.size()), path));
  if (groups.empty()) fields.wrong("groups", "the settings of at least one parameter group");
  std::set<std::string> names;
  for (const Json& parameter : fields.list("parameters")) {
    parameters.push_back(read_parameter(parameter, "parameter " + std::to_string(parameters.size()),
                                        path, groups.size()));
    const RunParameter& p = parameters.back();
    if (groups[p.group].hyper.rule == UpdateRule::muon && p.shape.size() != 2)
      refuse_recording(path,
                       shown_name(p.name) + " has " + std::to_string(p.shape.size()) +
                           " dimensions and the rule muon",
                       "muon updates matrices", "put it into a group of another rule");
    if (!names.insert(p.name).second)
      refuse_recording(path, "two parameters are " + shown_name(p.name),
                       "tensors are found by name", "write every parameter once");
  }
  check_tensors();
}

bool RankFile::has(const std::string& kind, const RunParameter& parameter) const {
  return reader_->find(kind + "." + parameter.name) != nullptr;
}

std::optional<RunValues> RankFile::read(const std::string& kind,
                                        const RunParameter& parameter) const {
  const SafeTensor* tensor = reader_->find(kind + "." + parameter.name);
  if (tensor == nullptr) return std::nullopt;
  RunValues read{*buffer_dtype(tensor->dtype),
                 std::vector<float>(static_cast<std::size_t>(tensor->numel()))};
  if (tensor->dtype == SafeDType::bf16)
    widen_values<bf16>(*reader_, *tensor, read.values);
  else if (tensor->dtype == SafeDType::f16)
    widen_values<fp16>(*reader_, *tensor, read.values);
  else
    widen_values<float>(*reader_, *tensor, read.values);
  return read;
}

/// Every tensor is one that the parameters announce, and states are complete.
void RankFile::check_tensors() const {
  std::size_t announced = 0;
  std::set<std::string> known;
  const auto check = [&](const std::string& kind, const RunParameter& p, const RunBlocks& blocks) {
    const std::string full = kind + "." + p.name;
    known.insert(full);
    const SafeTensor* tensor = reader_->find(full);
    if (tensor == nullptr) return false;
    ++announced;
    if (tensor->dtype != SafeDType::f32 && tensor->dtype != SafeDType::bf16 &&
        tensor->dtype != SafeDType::f16)
      refuse_recording(path, shown_name(full) + " is " + std::string(name(tensor->dtype)),
                       "gradients and states are fp32, bf16 or fp16", "write F32, BF16 or F16");
    const std::int64_t wanted = numel_of(blocks);
    if (tensor->shape.size() != 1 || tensor->numel() != wanted)
      refuse_recording(path,
                       shown_name(full) + " has " + std::to_string(tensor->numel()) +
                           " elements in " + std::to_string(tensor->shape.size()) +
                           " dimensions, its blocks " + std::to_string(wanted),
                       "a tensor has the elements of its blocks, in their order",
                       "write them in one dimension");
    return true;
  };
  for (const RunParameter& p : parameters) {
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      if (!check("leaf." + std::to_string(m), p, p.leaf)) break;  // later ones are not known then
    }
    check("reduced", p, p.owned);
    check("model", p, p.leaf);
    const bool updated = check("before.grad", p, p.owned);
    const RunGroup& group = groups[p.group];
    bool any = updated;
    std::string missing;
    for (const std::string& buffer : run_buffers(group)) {
      for (const std::string when : {"before.", "after."}) {
        const bool found = check(when + buffer, p, p.owned);
        any = any || found;
        // A buffer that the first update creates does not exist before it.
        const bool created = when == "before." && buffer != "master" && p.t <= 1;
        const bool first_sgd =
            buffer == "momentum_buffer" && when == "before." && group.hyper.rule == UpdateRule::sgd;
        if (!found && !created && !first_sgd && missing.empty())
          missing = when + buffer + "." + p.name;
      }
    }
    if (applied && any && !missing.empty() && !group.is_other && !p.owned.empty() && updated)
      refuse_recording(path, "there is no tensor " + shown_name(missing),
                       "the update of this parameter is recorded in part",
                       "write before.* and after.* of everything that the rule keeps, or none");
  }
  if (announced == reader_->header().tensors.size()) return;
  for (const SafeTensor& tensor : reader_->header().tensors) {
    if (!known.contains(tensor.name))
      refuse_recording(path, shown_name(tensor.name) + " belongs to no parameter",
                       "it would have no effect",
                       "leave it out, or name it as verification/tools/judge_run/README.md says");
  }
}

}  // namespace zeroproof::verification
