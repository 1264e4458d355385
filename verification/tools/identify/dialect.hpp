#pragma once
// Dialects: the arithmetic of named versions of optimizers, and an implementation of each.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"
#include "verification/tools/identify/formula.hpp"
#include "verification/tools/identify/hyper.hpp"
#include "verification/tools/identify/muon_formula.hpp"

namespace zeroproof::verification {

/// Evidence that a library computes this.
enum class Evidence : std::uint8_t {
  proved,    ///< by this project's own comparison, run in its tests
  recorded,  ///< every bit of steps that the library took; tests/verification/tools/identify/recorded_steps has some
  compared,  ///< value by value with the library's function, without a recording that is kept
  read       ///< from its source; not run by this project
};
std::string_view name(Evidence evidence);

struct Dialect {
  std::string name;     ///< "torch-cpu-fused"
  std::string library;  ///< "PyTorch"
  std::string version;  ///< of the library, "" if it is unknown
  std::string build;    ///< capability or flags that change bits
  Evidence evidence = Evidence::read;
  std::string note;  ///< a sentence on when it holds
  int tail_width =
      0;  ///< the last n mod tail_width elements of a tensor have formulas of their own; 0: none
  bool amsgrad = true;
  bool without_bias_correction = false;  ///< has an option to leave it out
  std::optional<AdamFormula> adam;       ///< adamw and adam
  std::optional<SgdFormula> sgd;
  std::optional<LambFormula> lamb;
  std::optional<MuonFormula> muon;

  /// True if the library computes such a step with this.
  bool takes(const DialectHyper& hyper) const;
};

/// All of them, the contract first. Families with an unknown contraction have a member for each
/// (apex-fused-adam:nlrn).
const std::vector<Dialect>& all_dialects();

/// nullptr if there is none of that name; torch-cpu-foreach is another name of torch-cpu-single.
const Dialect* find_dialect(std::string_view name);

/// "apex-fused-adam" of "apex-fused-adam:nlrn": the part before the colon.
std::string family_of(const std::string& name);

/// The tensors of one parameter; those a rule does not keep are empty.
struct UpdateTensors {
  Span<const float> grad;
  Span<float> master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;
};

/// One step of a dialect on one parameter of n elements, in place.
///
/// Shapes   every span that is used has n elements.
/// Units    is_first: this step of sgd is the one that makes the momentum buffer, from the gradient itself.
/// Exact    bitwise, as far as the dialect's evidence goes. lamb: the elements are one whole tensor; only the contract
///          defines the bits of its norms, for the others they are correctly rounded.
/// Errors   invalid_argument if the dialect does not take such a step, or the rule is muon, whose update has no element of
///          its own.
void update(const Dialect& dialect, const DialectHyper& hyper, bool is_first,
            const UpdateTensors& tensors);

}  // namespace zeroproof::verification
