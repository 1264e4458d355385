#include "verification/interfaces/files/call_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "common/io/json.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/cases/config/flag_number.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* schema = "zeroproof-call/1";
constexpr std::int64_t most_elements = std::int64_t{1} << 26;

template <class Number>
Number number(const std::string& text, const std::string& flag, Number otherwise, Number most) {
  return text.empty() ? otherwise : flag_number<Number>(text, flag, 0, most);
}

std::string why_not(const Op& op) {
  if (!op.settings && op.variants.size() > 1) return "its settings have no names";
  return "";
}

const Op& chosen_op(const std::string& name) {
  std::vector<std::string> names;
  for (const Op& op : all_ops()) {
    if (why_not(op).empty()) names.push_back(op.name);
  }
  const Op* op = find_op(name);
  ZP_CHECK(op != nullptr, ErrorCode::config, "'" + name + "' is not an operation",
           "there is no operation of that name",
           suggestion(name, names, "zeroproof list 'op/*' prints them"));
  const std::string why = why_not(*op);
  ZP_CHECK(why.empty(), ErrorCode::config, name + " cannot be written as a call file", why,
           "verify it here: zeroproof verify 'op/" + name + "/*'");
  return *op;
}

int chosen_variant(const Op& op, const std::string& text) {
  if (text.empty()) return 0;
  const auto found = std::ranges::find(op.variants, text);
  if (found != op.variants.end()) return static_cast<int>(found - op.variants.begin());
  int value = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc{} && rest == text.data() + text.size() && value >= 0 &&
                    value < static_cast<int>(op.variants.size());
  ZP_CHECK(good, ErrorCode::config, "--variant is '" + text + "'", op.name + " has no such variant",
           suggestion(text, op.variants, fmt::format("use 0 to {}", op.variants.size() - 1)));
  return value;
}

std::string text_of(const OpSetting& setting) {
  if (const double* real = std::get_if<double>(&setting.value))
    return fmt::format("{:.17g}", *real);
  if (const std::int64_t* whole = std::get_if<std::int64_t>(&setting.value))
    return std::to_string(*whole);
  return std::to_string(std::get<std::uint64_t>(setting.value));
}

std::vector<std::int64_t> shape_in(const Operand& operand, const CallChoice& choice) {
  const std::vector<OpSetting> settings =
      choice.op->settings ? choice.op->settings(OpCall(*choice.op, choice.shape))
                          : std::vector<OpSetting>{};
  return shape_of(operand, choice.shape.numel, settings);
}

bool is_input(const Operand& operand) { return operand.access != Access::out; }
bool is_output(const Operand& operand) { return operand.access != Access::in; }

Span<const std::byte> bytes_of(const TensorView& view) {
  return {static_cast<const std::byte*>(view.data), static_cast<std::size_t>(view.num_bytes())};
}

/// Digest of the results; results of an operation with an error bound may differ between machines.
std::string expected(const CallChoice& choice) {
  if (choice.op->exactness == Exactness::bounded) return "a bound";
  return digest_of(choice, reference_results(choice));
}

SafeMetadata metadata_of(const CallChoice& choice, const OpCall& call) {
  const Op& op = *choice.op;
  SafeMetadata metadata = {{"schema", schema},
                           {"contract", std::to_string(contract_version)},
                           {"operation", op.name},
                           {"fill", std::string(name(choice.shape.fill))},
                           {"numel", std::to_string(choice.shape.numel)},
                           {"seed", std::to_string(choice.shape.seed)},
                           {"variant", std::to_string(choice.shape.variant)},
                           {"expected", expected(choice)}};
  if (op.settings) {
    for (const OpSetting& setting : op.settings(call))
      metadata["setting." + setting.name] = text_of(setting);
  }
  Json outputs = Json::array();
  for (const Operand& operand : op.operands) {
    if (!is_output(operand)) continue;
    const SafeTensorSpec wanted = wanted_output(operand, choice);
    outputs.push_back({{"name", wanted.name},
                       {"dtype", std::string(name(wanted.dtype))},
                       {"shape", wanted.shape}});
  }
  metadata["outputs"] = outputs.dump();
  return metadata;
}

[[noreturn]] void refuse(const std::string& path, const std::string& problem,
                         const std::string& why) {
  fail(ErrorCode::io, path + ": " + problem, why, "write it again with zeroproof gen");
}

std::string member_of(const SafeMetadata& metadata, const std::string& key,
                      const std::string& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    refuse(path, "the metadata has no '" + key + "'", "the file was not written by gen");
  return found->second;
}

}  // namespace

std::string digest_of(const CallChoice& choice, const OpCall& results) {
  Hasher hasher;
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    if (is_output(choice.op->operands[k])) hasher.add(results.view(k));
  }
  return to_hex(hasher.digest());
}

std::string CallChoice::text() const {
  return fmt::format("op/{}, fill {}, numel {}, seed {}, variant {}", op->name, name(shape.fill),
                     shape.numel, shape.seed, op->variants[shape.variant]);
}

CallChoice choose_call(const CallRequest& request) {
  std::string operation =
      request.operation.starts_with("op/") ? request.operation.substr(3) : request.operation;
  std::string fill = request.fill.empty() ? "training" : request.fill;
  const std::size_t at = operation.find("/fill:");
  if (at != std::string::npos) {
    const std::string named = operation.substr(at + 6);
    ZP_CHECK(request.fill.empty() || request.fill == named, ErrorCode::config,
             "two different fills are given", "inputs are made of one",
             "leave out --fill, or the fill of the case");
    fill = named;
    operation.resize(at);
  }
  CallChoice choice;
  choice.op = &chosen_op(operation);
  std::vector<std::string> fills;
  for (const Fill one : choice.op->fills) fills.emplace_back(name(one));
  const auto found = std::ranges::find(fills, fill);
  ZP_CHECK(found != fills.end(), ErrorCode::config, "'" + fill + "' is not a fill of " + operation,
           "inputs are made of one", suggestion(fill, fills));
  choice.shape.fill = choice.op->fills[found - fills.begin()];
  choice.shape.numel = number<std::int64_t>(request.numel, "--numel", 1000, most_elements);
  choice.shape.seed = number<std::uint64_t>(request.seed, "--seed", 1, ~std::uint64_t{0});
  choice.shape.variant = chosen_variant(*choice.op, request.variant);
  return choice;
}

SafeTensorSpec wanted_output(const Operand& operand, const CallChoice& choice) {
  return {"after." + operand.name, safe_dtype(operand.dtype), shape_in(operand, choice)};
}

OpCall reference_results(const CallChoice& choice) {
  OpCall call(*choice.op, choice.shape);
  choice.op->reference(call);
  return call;
}

void write_call(const CallChoice& choice, const std::string& path, const OpCall* results) {
  const OpCall call(*choice.op, choice.shape);
  std::vector<SafeTensorSpec> specs;
  for (const Operand& operand : choice.op->operands) {
    if (!is_input(operand)) continue;
    specs.push_back(
        {"before." + operand.name, safe_dtype(operand.dtype), shape_in(operand, choice)});
  }
  for (const Operand& operand : choice.op->operands) {
    if (results != nullptr && is_output(operand)) specs.push_back(wanted_output(operand, choice));
  }
  SafetensorsWriter writer(path, specs, metadata_of(choice, call));
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    if (is_input(operand)) writer.write("before." + operand.name, bytes_of(call.view(k)));
  }
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    if (results != nullptr && is_output(operand))
      writer.write("after." + operand.name, bytes_of(results->view(k)));
  }
  writer.finish();
}

bool describes_call(const SafetensorsReader& reader) {
  const auto found = reader.metadata().find("schema");
  return found != reader.metadata().end() && found->second == schema;
}

CallChoice described_call(const SafetensorsReader& reader, const std::string& path) {
  const auto text = [&](const std::string& key) { return member_of(reader.metadata(), key, path); };
  if (text("schema") != schema)
    refuse(path, "its schema is " + shown_name(text("schema")),
           "this program reads " + std::string(schema));
  CallChoice choice;
  try {
    choice = choose_call(
        {text("operation"), text("fill"), text("numel"), text("seed"), text("variant")});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::config) throw;
    refuse(path, std::string("its metadata cannot be used: ") + error.what(),
           "the file was changed");
  }
  const OpCall call(*choice.op, choice.shape);
  for (std::size_t k = 0; k < choice.op->operands.size(); ++k) {
    const Operand& operand = choice.op->operands[k];
    if (!is_input(operand)) continue;
    const SafeTensor* tensor = reader.find("before." + operand.name);
    const TensorView want = call.view(k);
    const bool fits = tensor != nullptr && tensor->dtype == safe_dtype(operand.dtype) &&
                      tensor->num_bytes() == want.num_bytes();
    std::vector<std::byte> bytes(fits ? static_cast<std::size_t>(want.num_bytes()) : 0);
    if (fits && !bytes.empty()) reader.read(*tensor, 0, bytes);
    if (!fits || !std::ranges::equal(bytes, bytes_of(want))) {
      refuse(path, "before." + operand.name + " differs from the input written by gen",
             "the file was changed");
    }
  }
  return choice;
}

CallChoice read_call(const std::string& path) {
  const SafetensorsReader reader = SafetensorsReader::open(path);
  const auto text = [&](const std::string& key) { return member_of(reader.metadata(), key, path); };
  if (text("schema") != schema)
    refuse(path, "its schema is " + shown_name(text("schema")),
           "this program reads " + std::string(schema));
  if (text("contract") != std::to_string(contract_version)) {
    refuse(path, "it was written by contract " + shown_name(text("contract")),
           fmt::format("this program computes contract {}", contract_version));
  }
  const CallChoice choice = described_call(reader, path);
  const OpCall call(*choice.op, choice.shape);
  SafeMetadata want = metadata_of(choice, call);
  for (const auto& [key, value] : want) {
    if (text(key) != value)
      refuse(path, "'" + key + "' differs from the value written by gen", "the file was changed");
  }
  return choice;
}

}  // namespace zeroproof::verification
