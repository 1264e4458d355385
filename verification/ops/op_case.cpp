#include "verification/ops/op_case.hpp"

#include <algorithm>
#include <cstdlib>

#include "common/base/error.hpp"
#include "cuda/host/base/isa.hpp"
#include "verification/cases/id_pattern.hpp"

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

/// Candidates that patterns select: implementations of this program that this machine can run, the
/// device, and others.
std::vector<const OpCandidate*> candidates_here(const std::vector<const OpCandidate*>& others) {
  std::vector<const OpCandidate*> candidates;
  for (const Isa isa : isas()) candidates.push_back(&host_candidate(isa));
  candidates.push_back(&device_candidate());
  candidates.insert(candidates.end(), others.begin(), others.end());
  return candidates;
}

/// Candidates that a complete id can name.
std::vector<const OpCandidate*> nameable(const std::vector<const OpCandidate*>& others) {
  std::vector<const OpCandidate*> candidates = own_candidates();
  candidates.insert(candidates.end(), others.begin(), others.end());
  return candidates;
}

std::string fill_part(Fill fill) { return "fill:" + std::string(name(fill)); }

std::vector<std::string> usual_ids(const std::vector<const OpCandidate*>& others) {
  const std::vector<const OpCandidate*> candidates = candidates_here(others);
  std::vector<std::string> ids;
  for (const Op& op : all_ops()) {
    for (const Fill fill : op.fills) {
      for (const OpCandidate* one : candidates) {
        if (one->has(op)) ids.push_back(OpCaseSpec{&op, one, fill}.id());
      }
    }
  }
  return ids;
}

IdGrammar op_grammar(const std::vector<const OpCandidate*>& others) {
  using Parts = std::vector<std::string>;
  std::vector<Parts> candidates;  // the two parts of an id that name the candidate
  for (const OpCandidate* one : nameable(others)) candidates.push_back(id_parts(one->id()));
  return {{"suite", [](const Parts&) { return Parts{"op"}; }},
          {"operation", [](const Parts&) { return op_names(); }},
          {"implementation",
           [candidates](const Parts&) {
             Parts kinds;
             for (const Parts& one : candidates) {
               if (kinds.empty() || kinds.back() != one[0]) kinds.push_back(one[0]);
             }
             return kinds;
           }},
          {"instruction set",
           [candidates](const Parts& before) {
             Parts names;
             for (const Parts& one : candidates) {
               if (one[0] == before[2]) names.push_back(one[1]);
             }
             return names;
           }},
          {"fill", [](const Parts& before) {
             Parts fills;
             for (const Fill fill : find_op(before[1])->fills) fills.push_back(fill_part(fill));
             return fills;
           }}};
}

/// The case of a complete id.
OpCaseSpec case_of(const std::string& id, const std::vector<const OpCandidate*>& others) {
  const std::vector<std::string> parts = id_parts(id);
  const std::vector<const OpCandidate*> candidates = nameable(others);
  OpCaseSpec spec;
  spec.op = find_op(parts[1]);
  spec.candidate = *std::find_if(candidates.begin(), candidates.end(), [&](const OpCandidate* one) {
    return one->id() == parts[2] + "/" + parts[3];
  });
  ZP_CHECK(spec.candidate->has(*spec.op), ErrorCode::config,
           spec.op->name + " has no " + parts[2] + " implementation",
           "the contract leaves it to the host", "use op/" + spec.op->name + "/host/...");
  spec.fill = *std::find_if(spec.op->fills.begin(), spec.op->fills.end(),
                            [&](Fill fill) { return fill_part(fill) == parts[4]; });
  return spec;
}

}  // namespace

std::string OpCaseSpec::id() const {
  return "op/" + op->name + "/" + candidate->id() + "/" + fill_part(fill);
}

std::vector<OpCaseSpec> op_cases(const std::string& pattern,
                                 const std::vector<const OpCandidate*>& others) {
  const std::vector<std::string> ids =
      select_ids(find_op(pattern) != nullptr ? "op/" + pattern : pattern, op_grammar(others),
                 [&] { return usual_ids(others); });
  std::vector<OpCaseSpec> cases;
  for (const std::string& id : ids) cases.push_back(case_of(id, others));
  return cases;
}

std::vector<CallShape> sweep(const Op& op, Fill fill, std::uint64_t seed) {
  std::vector<std::int64_t> sizes = {0,  1,    2,    3,    4,    5,    7,    8,   9,
                                     15, 16,   17,   31,   32,   33,   63,   64,  65,
                                     67, 1023, 1024, 1025, 3077, 4095, 4096, 4097};
  sizes.erase(
      std::remove_if(sizes.begin(), sizes.end(), [&](std::int64_t n) { return n >= op.largest; }),
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
