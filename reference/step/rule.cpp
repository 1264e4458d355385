#include "reference/rule.hpp"

#include <string>

#include "common/base/error.hpp"
#include "common/step/state_buffers.hpp"
#include "reference/buffers.hpp"
#include "reference/update_operations.hpp"

namespace zeroproof::reference {
namespace {

void check_numel(BufferId id, Span<const float> view, std::int64_t padded_numel) {
  const std::string buffer(name(id));
  ZP_CHECK(numel(view) == padded_numel, ErrorCode::invalid_argument,
           view.empty()
               ? "the loaded state has no " + buffer
               : "the loaded " + buffer + " has " + std::to_string(view.size()) + " elements",
           "the rule needs one and the layout has " + std::to_string(padded_numel) +
               " elements with padding",
           "pass [padded_numel]");
}

}  // namespace

RuleState make_rule_state(const OptimizerHyper& hyper, std::int64_t numel) {
  RuleState state;
  for (const BufferId id : kept_buffers(hyper)) state[id] = nan_buffer(numel);
  return state;
}

Span<const float> loaded(const FullState& state, BufferId id) {
  switch (id) {
    case BufferId::exp_avg:
      return state.exp_avg;
    case BufferId::exp_avg_sq:
      return state.exp_avg_sq;
    case BufferId::max_exp_avg_sq:
      return state.max_exp_avg_sq;
    case BufferId::momentum_buffer:
      return state.momentum_buffer;
    case BufferId::master:
      return state.master;
    default:
      fail(ErrorCode::internal, std::string(name(id)) + " is not part of a loaded state",
           "it is recomputed in every step", "report this as a defect");
  }
}

void check_loaded(const FullState& state, const OptimizerHyper& hyper, std::int64_t padded_numel) {
  check_numel(BufferId::master, state.master, padded_numel);
  for (const BufferId id : kept_buffers(hyper)) check_numel(id, loaded(state, id), padded_numel);
}

void add_trust_norms(const OptimizerHyper& hyper, const StepScalars& scalars, const Piece& piece,
                     const std::vector<float>& grad, const std::vector<float>& master,
                     const RuleState& state, TrustNorms& norms) {
  lamb_norms({}, {hyper.maximize}, scalars, at(grad, piece), at(master, piece),
             at(state.at(BufferId::exp_avg), piece), at(state.at(BufferId::exp_avg_sq), piece),
             norms);
}

void update_piece(const OptimizerHyper& hyper, const StepScalars& scalars, float trust_ratio,
                  const Piece& piece, std::vector<float>& grad, std::vector<float>& master,
                  RuleState& state) {
  const auto part_of = [&](BufferId id) {
    const auto found = state.find(id);
    return found == state.end() ? Span<float>() : at(found->second, piece);
  };
  update_by_rule(hyper, scalars, trust_ratio, at(grad, piece), at(master, piece),
                 {part_of(BufferId::exp_avg), part_of(BufferId::exp_avg_sq),
                  part_of(BufferId::max_exp_avg_sq), part_of(BufferId::momentum_buffer)});
}

}  // namespace zeroproof::reference
