#include "verification/ops/op_case.hpp"

#include <algorithm>
#include <cstdlib>

#include "common/base/error.hpp"
#include "common/step/config.hpp"
#include "cuda/host/isa.hpp"

namespace zeroproof::verification {
namespace {

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op& op : all_ops()) names.push_back(op.name);
  return names;
}

std::vector<Isa> isas() {
  const char* forced = std::getenv("ZP_ISA");
  if (forced != nullptr && *forced != '\0') return {cuda::host::best_isa()};
  return cuda::host::supported_isas();
}

std::vector<OpCaseSpec> cases_here() {
  std::vector<OpCaseSpec> cases;
  for (const Op& op : all_ops()) {
    for (const Fill fill : op.fills) {
      for (const Isa isa : isas()) cases.push_back({&op, false, isa, fill});
      if (op.device) cases.push_back({&op, true, Isa::best, fill});
    }
  }
  return cases;
}

[[noreturn]] void refuse(const std::string& what, const std::string& text,
                         const std::vector<std::string>& known) {
  fail(ErrorCode::config, what + " '" + text + "' does not exist", "the case id names nothing that can run",
       "did you mean " + nearest(text, known) + "?");
}

Isa parse_isa(const std::string& text) {
  std::vector<std::string> names;
  for (const Isa isa : {Isa::x86_64, Isa::x86_64_v3, Isa::x86_64_v4}) {
    names.emplace_back(cuda::host::name(isa));
    if (names.back() == text) return isa;
  }
  refuse("instruction set", text, names);
}

Fill parse_fill_of(const Op& op, const std::string& text) {
  std::vector<std::string> names;
  for (const Fill fill : op.fills) {
    names.push_back("fill:" + std::string(name(fill)));
    if (names.back() == text) return fill;
  }
  refuse("fill", text, names);
}

OpCaseSpec parse_id(const std::vector<std::string>& parts) {
  OpCaseSpec spec;
  spec.op = find_op(parts[1]);
  if (spec.op == nullptr) refuse("operation", parts[1], op_names());
  spec.device = parts[2] == "device";
  if (!spec.device && parts[2] != "host") refuse("twin", parts[2], {"host", "device"});
  ZP_CHECK(!spec.device || spec.op->device, ErrorCode::config, spec.op->name + " has no device twin",
           "the contract leaves it to the host", "use op/" + spec.op->name + "/host/...");
  if (spec.device) {
    if (parts[3] != "cuda") refuse("device kind", parts[3], {"cuda"});
    spec.isa = Isa::best;
  } else {
    spec.isa = parse_isa(parts[3]);
  }
  spec.fill = parse_fill_of(*spec.op, parts[4]);
  return spec;
}

}  // namespace

std::string OpCaseSpec::id() const {
  return "op/" + op->name + (device ? "/device/cuda" : "/host/" + std::string(cuda::host::name(isa))) +
         "/fill:" + std::string(name(fill));
}

std::string OpCaseSpec::side() const {
  return device ? "device" : "host " + std::string(cuda::host::name(isa));
}

bool names_ops(const std::string& pattern) {
  return pattern == "op" || pattern.rfind("op/", 0) == 0 || find_op(pattern) != nullptr;
}

std::vector<OpCaseSpec> op_cases(const std::string& pattern) {
  const std::vector<std::string> parts = id_parts(pattern);
  const bool wild = pattern.find_first_of("*?") != std::string::npos;
  if (!wild && parts.size() == 5) return {parse_id(parts)};
  if (!wild && parts.size() >= 2 && parts[0] == "op" && !parts[1].empty() && find_op(parts[1]) == nullptr) {
    refuse("operation", parts[1], op_names());
  }
  std::string prefix = find_op(pattern) != nullptr ? "op/" + pattern + "/"
                       : pattern == "op"           ? "op/"
                                                   : pattern;
  if (parts.size() == 2 && find_op(parts[1]) != nullptr) prefix += "/";  // op/clip is not op/clip_coef
  std::vector<OpCaseSpec> selected;
  for (const OpCaseSpec& spec : cases_here()) {
    if (wild ? matches(pattern, spec.id()) : spec.id().rfind(prefix, 0) == 0) selected.push_back(spec);
  }
  return selected;
}

std::vector<CallShape> sweep(const Op& op, Fill fill, std::uint64_t seed) {
  std::vector<std::int64_t> sizes = {0,  1,  2,  3,  4,  5,  7,    8,    9,    15,   16,   17,   31,
                                     32, 33, 63, 64, 65, 67, 1023, 1024, 1025, 3077, 4095, 4096, 4097};
  sizes.erase(std::remove_if(sizes.begin(), sizes.end(), [&](std::int64_t n) { return n >= op.largest; }),
              sizes.end());
  sizes.push_back(op.largest);
  std::vector<CallShape> shapes;
  std::uint64_t first = 0;
  const auto add = [&](std::int64_t numel, int offset, int variant, int threads) {
    shapes.push_back({fill, numel, offset, variant, threads, seed, first});
    first += static_cast<std::uint64_t>(numel);
  };
  for (int variant = 0; variant < static_cast<int>(op.variants.size()); ++variant) {
    int turn = 0;
    for (const std::int64_t numel : sizes) {
      if (numel > 1025) {
        add(numel, turn++ % 3, variant, 1);
      } else {
        for (const int offset : {0, 1, 2}) add(numel, offset, variant, 1);
      }
    }
    add(op.largest, 1, variant, 3);
  }
  return shapes;
}

}  // namespace zeroproof::verification
