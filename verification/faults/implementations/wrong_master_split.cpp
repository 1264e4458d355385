// Masters split into a bf16 parameter and its remainder, and joined again, with faults.

#include <bit>
#include <cmath>

#include "common/base/float_formats.hpp"
#include "cuda/host/operations.hpp"
#include "verification/faults/planted/fault_context.hpp"
#include "verification/ops/one_implementation.hpp"

namespace zeroproof::verification {
namespace {

namespace host = cuda::host;

/// The parameter is rounded to nearest, ties to even; the remainder assumes ties away.
void split_to_even(const Exec& exec, SplitRule rule, Span<const float> master, Span<bf16> param,
                   Span<std::uint16_t> remainder) {
  host::split_master(exec, rule, master, param, remainder);
  for (std::size_t i = 0; i < master.size(); ++i) {
    if (std::isfinite(master[i])) param[i] = to_bf16(master[i]);
  }
}

/// The master is the parameter, widened.
void remainder_lost(const Exec& exec, SplitRule rule, Span<const bf16> param,
                    Span<const std::uint16_t> remainder, Span<float> master) {
  host::join_master(exec, rule, param, remainder, master);
  for (std::size_t i = 0; i < master.size(); ++i) {
    if (std::isfinite(to_float(param[i]))) master[i] = to_float(param[i]);
  }
}

/// The remainder is appended to the parameter without undoing a rounding up of the parameter.
void rounding_kept(const Exec& exec, SplitRule rule, Span<const bf16> param,
                   Span<const std::uint16_t> remainder, Span<float> master) {
  host::join_master(exec, rule, param, remainder, master);
  for (std::size_t i = 0; i < master.size(); ++i) {
    const std::uint32_t joined = (std::uint32_t{param[i].bits} << 16) + remainder[i];
    if (std::isfinite(to_float(param[i]))) master[i] = std::bit_cast<float>(joined);
  }
}

}  // namespace

std::function<void(OpCall&)> wrong_master_split(std::string_view fault,
                                                std::string_view operation) {
  struct Row {
    std::string_view fault, operation;
    OpFunction calls;
  };
  static const Row rows[] = {
      {"split-rounds-to-even", "split_master", calls_of_split_master(split_to_even)},
      {"remainder-lost", "join_master", calls_of_join_master(remainder_lost)},
      {"remainder-rounding-kept", "join_master", calls_of_join_master(rounding_kept)}};
  for (const Row& row : rows) {
    if (row.fault == fault && row.operation == operation) return row.calls;
  }
  return {};
}

}  // namespace zeroproof::verification
