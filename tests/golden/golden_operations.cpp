#include <stdexcept>

#include "golden_rows.hpp"
#include "oracle_compare.hpp"
#include "oracle_format_operations.hpp"
#include "oracle_fused_operations.hpp"

namespace zeroproof::golden {
namespace {

using namespace zeroproof::oracle;

// Lengths: the first scalar set and family of an operation get more than two blocks of the host
// implementations, so that threads share the work; the others are short, because there are hundreds
// of them and they run at -O0 too.
constexpr std::int64_t long_numel = 40001;
constexpr std::int64_t short_numel = 331;

constexpr Family families[] = {Family::any_bits, Family::special,   Family::near_subnormal,
                               Family::training, Family::cast_ties, Family::every_pattern};

struct Candidate {
  Implementation implementation;
  Hasher hasher = {};
};

/// Inputs are generated once and shared by all implementations: generating them costs more than the
/// operations.
Row digest_operation(const Operation& op, int threads) {
  std::vector<Candidate> candidates;
  for (const Implementation& implementation : all_implementations()) {
    if (op.has(implementation)) candidates.push_back({implementation});
  }
  Workspace inputs, outputs;
  for (int set = 0; set < op.sets; ++set) {
    for (const Family family : op.families) {
      const bool is_long = set == 0 && family == op.families.front();
      const std::int64_t numel = is_long ? long_numel : short_numel;
      const Operands shared = inputs.prepare(op, numel);
      fill_inputs(op, family, 1000003 * static_cast<std::uint64_t>(set), shared);
      for (Candidate& candidate : candidates) {
        Exec exec = candidate.implementation.exec;
        exec.num_threads = threads;
        Operands operands = outputs.prepare(op, numel);
        operands.in = shared.in;
        const bool found = op.run(candidate.implementation, exec, set, operands);
        candidate.hasher.add(name(family));
        candidate.hasher.add(std::uint64_t{found ? 1U : 0U});
        for (std::size_t k = 0; k < op.out_types.size(); ++k) {
          candidate.hasher.add(TensorView{operands.out[k], op.out_types[k], numel});
        }
      }
    }
  }
  std::vector<Seen> seen;
  for (const Candidate& candidate : candidates)
    seen.push_back({candidate.implementation.name, candidate.hasher.digest()});
  return agreed("op " + op.name, seen);
}

std::vector<Operation> all_operations() {
  std::vector<Operation> all;
  for (const auto& part : {update_operations(), simple_operations(), narrow_operations(),
                           widen_operations(), fused_operations(), format_operations()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

Row agreed(const std::string& name, const std::vector<Seen>& seen) {
  if (seen.empty()) throw std::runtime_error(name + ": no implementation to digest");
  for (const Seen& other : seen) {
    if (other.digest == seen.front().digest) continue;
    throw std::runtime_error(name + ": " + other.implementation + " has " + to_hex(other.digest) +
                             " and " + seen.front().implementation + " has " +
                             to_hex(seen.front().digest));
  }
  return {name, seen.front().digest};
}

std::vector<Row> input_rows() {
  std::vector<Row> rows;
  for (const Family family : families) {
    Hasher hasher;
    for (std::uint64_t i = 0; i < long_numel; ++i) {
      Element element = make_element(family, i);
      hasher.add(
          TensorView{element.data(), DType::fp32, static_cast<std::int64_t>(element.size())});
    }
    rows.push_back({std::string("input ") + name(family), hasher.digest()});
  }
  return rows;
}

std::vector<Row> operation_rows(int threads) {
  std::vector<Row> rows;
  for (const Operation& op : all_operations()) rows.push_back(digest_operation(op, threads));
  return rows;
}

}  // namespace zeroproof::golden
