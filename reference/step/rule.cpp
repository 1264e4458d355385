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
  for (const StateSlot slot : kept_slots(hyper)) state[slot] = nan_buffer(numel);
  return state;
}

void check_loaded(const FullState& state, const OptimizerHyper& hyper, std::int64_t padded_numel) {
  check_numel(BufferId::master, state.master, padded_numel);
  for (const StateSlot slot : kept_slots(hyper))
    check_numel(buffer_of(slot), state.slots[slot], padded_numel);
}

void add_trust_norms(const OptimizerHyper& hyper, const StepScalars& scalars, const Piece& piece,
                     const std::vector<float>& grad, const std::vector<float>& master,
                     const RuleState& state, TrustNorms& norms) {
  lamb_norms({}, {hyper.maximize}, scalars, at(grad, piece), at(master, piece),
             at(state.at(StateSlot::exp_avg), piece), at(state.at(StateSlot::exp_avg_sq), piece),
             norms);
}

void update_piece(const OptimizerHyper& hyper, const StepScalars& scalars, float trust_ratio,
                  const Piece& piece, std::vector<float>& grad, std::vector<float>& master,
                  RuleState& state) {
  const StateSpans spans = per_slot([&](StateSlot slot) {
    const auto found = state.find(slot);
    return found == state.end() ? Span<float>() : at(found->second, piece);
  });
  update_by_rule(hyper, scalars, trust_ratio, at(grad, piece), at(master, piece), spans);
}

}  // namespace zeroproof::reference
