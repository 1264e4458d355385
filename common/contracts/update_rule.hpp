#pragma once
// The update rules of R6 as a table: names, state and options. Their formulas are only in the
// implementations.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/error.hpp"
#include "common/contracts/state_slot.hpp"

namespace zeroproof {

/// Named update rules (R6). adamw: decoupled decay; adam: decay added to the gradient (L2); sgd: with a
/// momentum buffer; sgd_ema: moves by an exponential moving average of the gradient, with no bias correction;
/// lion: moves by the sign of one, with decoupled decay; lamb: AdamW's update of every tensor, scaled by a trust
/// ratio of two norms over the whole tensor; muon: moves matrices by their orthogonalised momentum (R28), other
/// tensors as adamw.
enum class UpdateRule : std::uint8_t { adamw, adam, sgd, sgd_ema, lion, lamb, muon };

/// Where weight decay enters (R6). coupled: weight_decay * master is added to the gradient; decoupled:
/// lr * weight_decay * master is subtracted from the master, not added to the gradient.
enum class DecayKind : std::uint8_t { coupled, decoupled };

/// One row of R6: the state of a rule besides the master, and its options.
struct RuleTraits {
  UpdateRule rule;
  std::string_view name;  ///< as in configuration files and reports
  DecayKind decay;
  /// The buffers that it keeps, max_exp_avg_sq and momentum_buffer only where an option asks for them. With
  /// exp_avg_sq it takes bias_correction.
  PerSlot<bool> keeps;
  /// Scales the update of every tensor by its trust ratio: a step adds up two norms per tensor over all ranks
  /// before the first element moves.
  bool trust_ratio;
  /// Some tensors are updated as whole matrices (R28): a step brings their elements together first.
  bool matrices;

  /// Takes the option of that name.
  constexpr bool amsgrad() const { return keeps[StateSlot::max_exp_avg_sq]; }
  /// Takes momentum, dampening and nesterov; without momentum it has no buffer.
  constexpr bool momentum() const { return keeps[StateSlot::momentum_buffer]; }
};

/// In the order of the enumerators.
inline constexpr std::array<RuleTraits, 7> update_rules = {{
    {UpdateRule::adamw, "adamw", DecayKind::decoupled, {true, true, true, false}, false, false},
    {UpdateRule::adam, "adam", DecayKind::coupled, {true, true, true, false}, false, false},
    {UpdateRule::sgd, "sgd", DecayKind::coupled, {false, false, false, true}, false, false},
    {UpdateRule::sgd_ema, "sgd_ema", DecayKind::coupled, {true, false, false, false}, false, false},
    {UpdateRule::lion, "lion", DecayKind::decoupled, {true, false, false, false}, false, false},
    {UpdateRule::lamb, "lamb", DecayKind::decoupled, {true, true, false, false}, true, false},
    {UpdateRule::muon, "muon", DecayKind::decoupled, {true, true, false, false}, false, true},
}};

/// Errors: invalid_argument if there is no such rule.
constexpr const RuleTraits& traits_of(UpdateRule rule) {
  const auto row = static_cast<std::size_t>(rule);
  ZP_CHECK(row < update_rules.size(), ErrorCode::invalid_argument,
           "update rule " + std::to_string(row) + " does not exist",
           "its formula and its state are undefined", "use one of the rules of R6");
  return update_rules[row];
}

}  // namespace zeroproof
