#include "verification/ops/op_case.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "common/base/error.hpp"
#include "cuda/host/isa.hpp"
#include "verification/case/id_pattern.hpp"

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

constexpr std::array<Isa, 3> all_isas = {Isa::x86_64, Isa::x86_64_v3, Isa::x86_64_v4};

std::string fill_part(Fill fill) { return "fill:" + std::string(name(fill)); }

IdGrammar op_grammar() {
  using Parts = std::vector<std::string>;
  return {{"suite", [](const Parts&) { return Parts{"op"}; }},
          {"operation", [](const Parts&) { return op_names(); }},
          {"twin",
           [](const Parts&) {
             return Parts{"host", "device"};
           }},
          {"instruction set",
           [](const Parts& before) {
             if (before[2] == "device") return Parts{"cuda"};
             Parts names;
             for (const Isa isa : all_isas) names.emplace_back(cuda::host::name(isa));
             return names;
           }},
          {"fill", [](const Parts& before) {
             Parts fills;
             for (const Fill fill : find_op(before[1])->fills) fills.push_back(fill_part(fill));
             return fills;
           }}};
}

/// The case of a complete id.
OpCaseSpec case_of(const std::string& id) {
  const std::vector<std::string> parts = id_parts(id);
  OpCaseSpec spec;
  spec.op = find_op(parts[1]);
  spec.device = parts[2] == "device";
  ZP_CHECK(!spec.device || spec.op->device, ErrorCode::config, spec.op->name + " has no device twin",
           "the contract leaves it to the host", "use op/" + spec.op->name + "/host/...");
  spec.isa = Isa::best;
  for (const Isa isa : all_isas) {
    if (cuda::host::name(isa) == parts[3]) spec.isa = isa;
  }
  spec.fill = *std::find_if(spec.op->fills.begin(), spec.op->fills.end(),
                            [&](Fill fill) { return fill_part(fill) == parts[4]; });
  return spec;
}

}  // namespace

std::string OpCaseSpec::id() const {
  return "op/" + op->name + (device ? "/device/cuda" : "/host/" + std::string(cuda::host::name(isa))) + "/" +
         fill_part(fill);
}

std::string OpCaseSpec::side() const {
  return device ? "device" : "host " + std::string(cuda::host::name(isa));
}

std::vector<OpCaseSpec> op_cases(const std::string& pattern) {
  const std::vector<std::string> ids =
      select_ids(find_op(pattern) != nullptr ? "op/" + pattern : pattern, op_grammar(), [] {
        std::vector<std::string> usual;
        for (const OpCaseSpec& spec : cases_here()) usual.push_back(spec.id());
        return usual;
      });
  std::vector<OpCaseSpec> cases;
  for (const std::string& id : ids) cases.push_back(case_of(id));
  return cases;
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
