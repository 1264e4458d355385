// Legal differences in single operations. Each control is an operation case with another correct
// implementation in place of the host implementation.

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "common/base/digest.hpp"
#include "common/base/error.hpp"
#include "cuda/host/operations.hpp"
#include "verification/compare/compare.hpp"
#include "verification/faults/controls/control.hpp"
#include "verification/faults/controls/legal_implementations.hpp"
#include "verification/ops/op_case.hpp"

namespace zeroproof::verification {
namespace {

/// Runs the harness on operation `name` with `implementation` in place of the host implementation.
void try_implementation(const std::string& name, const std::vector<Fill>& fills,
                        const OpFunction& implementation, std::uint64_t seed,
                        ControlOutcome& outcome) {
  const Op* original = find_op(name);
  ZP_CHECK(original != nullptr, ErrorCode::internal, "a control names operation " + name,
           "the registry has none", "use an operation of the registry");
  Op op = *original;
  op.host = implementation;
  std::vector<OpCaseSpec> cases;
  for (const Fill fill : fills) cases.push_back({&op, &host_candidate(Isa::x86_64), fill});
  OpRunOptions options;
  options.seed = seed;
  for (const Result& result : run_op_cases(cases, options)) {
    outcome.compared += result.compared;
    if (result.status == Status::pass || result.status == Status::mistrusted) continue;
    outcome.flagged += std::max<std::int64_t>(1, result.differing);
    if (outcome.first.empty()) outcome.first = result.id + ": " + result.reason;
  }
}

/// Gives every NaN of a view another sign and payload; returns how many there were. e8m0 has one NaN, without either.
std::int64_t scramble_nans(const TensorView& view) {
  if (view.dtype == DType::e8m0) return 0;
  const int sign = static_cast<int>(8 * num_bytes(view.dtype)) - 1;
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < view.numel; ++i) {
    const std::uint64_t bits = element_bits(view, i);
    if (!is_nan_bits(view.dtype, bits)) continue;
    std::uint64_t other = bits ^ (std::uint64_t{1} << sign);
    if (is_nan_bits(view.dtype, other ^ 1U)) other ^= 1U;
    auto* to = static_cast<std::byte*>(view.data) + i * num_bytes(view.dtype);
    for (std::int64_t b = 0; b < num_bytes(view.dtype); ++b)
      to[b] = static_cast<std::byte>(other >> (8 * b));
    ++changed;
  }
  return changed;
}

ControlOutcome nan_payloads(std::uint64_t seed) {
  ControlOutcome outcome;
  for (const Op& op : all_ops()) {
    const bool numbers =
        std::find(op.fills.begin(), op.fills.end(), Fill::special) != op.fills.end();
    if (!op.host || !numbers || op.exactness == Exactness::bounded) continue;
    const OpFunction implementation = [&](OpCall& call) {
      op.host(call);
      for (std::size_t k = 0; k < op.operands.size(); ++k) {
        if (op.operands[k].access != Access::in)
          outcome.legal_differences += scramble_nans(call.view(k));
      }
    };
    try_implementation(op.name, {Fill::special}, implementation, seed, outcome);
  }
  return outcome;
}

/// Two buffers that differ only in NaNs must have the same digest.
ControlOutcome nan_payloads_in_digests(std::uint64_t seed) {
  ControlOutcome outcome;
  const Op* op = find_op("adamw_update");
  for (const std::int64_t numel : {1, 7, 64, 1025}) {
    const OpCall one(*op, {Fill::special, numel, 0, 0, 1, seed, 0});
    const OpCall other = one.fresh();
    for (std::size_t k = 0; k < op->operands.size(); ++k) {
      outcome.legal_differences += scramble_nans(other.view(k));
      Hasher a;
      Hasher b;
      a.add(one.view(k));
      b.add(other.view(k));
      outcome.compared += numel;
      if (a.digest() == b.digest()) continue;
      ++outcome.flagged;
      outcome.first = "digests of " + op->operands[k].name + " differ";
    }
  }
  return outcome;
}

ControlOutcome swapped_sums(std::uint64_t seed) {
  ControlOutcome outcome;
  const OpFunction implementation = [&](OpCall& call) {
    cuda::host::add_nodes(call.exec, call.in<float>(1), call.in<float>(0), call.get<float>(2));
    outcome.legal_differences += call.numel();
  };
  try_implementation("add_nodes", number_fills(), implementation, seed, outcome);
  return outcome;
}

ControlOutcome swapped_operands(std::uint64_t seed) {
  ControlOutcome outcome;
  const OpFunction implementation = [&](OpCall& call) {
    swapped_adamw(call);
    outcome.legal_differences += call.numel();
  };
  try_implementation("adamw_update", number_fills(), implementation, seed, outcome);
  return outcome;
}

/// Accumulates pieces of a gradient, split at chunks, last piece first, into separate limbs that
/// are then added.
void accumulate_backwards(const Exec& exec, Span<const float> grad, std::size_t chunks,
                          NormLimbs& limbs) {
  const std::size_t piece = chunks * norm_chunk_numel;
  for (std::size_t k = (grad.size() + piece - 1) / piece; k-- > 0;) {
    NormLimbs part;
    cuda::host::grad_norm_accumulate(
        exec, grad.subspan(k * piece, std::min(piece, grad.size() - k * piece)), part);
    for (std::size_t i = 0; i < limbs.limbs.size(); ++i) limbs.limbs[i] += part.limbs[i];
    limbs.nan_count += part.nan_count;
    limbs.inf_count += part.inf_count;
  }
}

ControlOutcome norm_pieces(std::uint64_t seed) {
  ControlOutcome outcome;
  const OpFunction implementation = [&](OpCall& call) {
    NormLimbs limbs = initial_limbs(call.variant());
    const std::size_t chunks = 1 + static_cast<std::size_t>(call.shape().offset);
    accumulate_backwards(call.exec, call.in<float>(0), chunks, limbs);
    outcome.legal_differences += call.numel() > norm_chunk_numel ? 1 : 0;
    cuda::host::grad_norm_normalise(limbs);
    put_limbs(limbs, call.get<std::uint64_t>(1));
  };
  try_implementation("grad_norm_accumulate", number_fills(), implementation, seed, outcome);
  return outcome;
}

ControlOutcome norm_carries(std::uint64_t seed) {
  ControlOutcome outcome;
  const OpFunction implementation = [&](OpCall& call) {
    NormLimbs limbs = initial_limbs(call.variant());
    cuda::host::grad_norm_accumulate(call.exec, call.in<float>(0), limbs);
    outcome.legal_differences += leave_carries(limbs);
    cuda::host::grad_norm_normalise(limbs);
    put_limbs(limbs, call.get<std::uint64_t>(1));
  };
  try_implementation("grad_norm_accumulate", number_fills(), implementation, seed, outcome);
  const OpFunction finish = [&](OpCall& call) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(call.numel()); ++i) {
      NormLimbs limbs = get_limbs(call.in<std::uint64_t>(0).subspan(23 * i, 23));
      outcome.legal_differences += leave_carries(limbs);
      call.get<double>(1)[i] = cuda::host::grad_norm_finish(limbs);
    }
  };
  try_implementation("grad_norm_finish", {Fill::sweep}, finish, seed, outcome);
  return outcome;
}

ControlOutcome norm_with_fma(std::uint64_t seed) {
  ControlOutcome outcome;
  const OpFunction implementation = [&](OpCall& call) {
    NormLimbs limbs = initial_limbs(call.variant());
    const Span<const float> grad = call.in<float>(0);
    for (std::size_t at = 0; at < grad.size(); at += norm_chunk_numel) {
      const auto numel = std::min<std::size_t>(norm_chunk_numel, grad.size() - at);
      deposit_chunk(chunk_sum_with_fma(grad.subspan(at, numel)), limbs);
      outcome.legal_differences += static_cast<std::int64_t>(numel);
    }
    cuda::host::grad_norm_normalise(limbs);
    put_limbs(limbs, call.get<std::uint64_t>(1));
  };
  try_implementation("grad_norm_accumulate", number_fills(), implementation, seed, outcome);
  return outcome;
}

}  // namespace

std::vector<Control> op_controls() {
  return {
      {"nan-payloads", "NaNs of any sign and payload are one value (R9)", nan_payloads},
      {"nan-payloads-in-digests", "NaNs of any sign and payload are one value in digests (R9)",
       nan_payloads_in_digests},
      {"swapped-sums", "operands of + may be swapped (R6)", swapped_sums},
      {"swapped-operands", "operands of + and * may be swapped (R6)", swapped_operands},
      {"norm-pieces-in-any-order", "chunks may be added to the limbs in any pieces and order (R12)",
       norm_pieces},
      {"norm-carries-left", "carries may be left in the limbs before they are normalised (R12)",
       norm_carries},
      {"norm-with-fma", "the squares of the norm may use fused multiply-add (R7)", norm_with_fma},
  };
}

}  // namespace zeroproof::verification
