// The rule muon (R28).

#include <algorithm>

#include "common/step/muon_names.hpp"
#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

bool muon(const RunConfig& c) { return traits_of(c.optimizer.rule).matrices; }

bool rounds_factors(const RunConfig& c) {
  return muon(c) && c.optimizer.muon.newton_schulz.factors == MatrixFactors::bf16;
}

/// Norms of momenta lie between the two.
constexpr double small_eps = 1e-7, large_eps = 1e-2;

/// A period that is repeated: one row, then the other rows of a head.
MatrixSplitRule interleaved_split(const RunConfig& c) {
  MatrixSplitRule split{"interleaved", {"*.attention.output.weight"}, {1}, {}};
  const std::int64_t head = c.model.width / c.model.heads;
  if (head > 1) split.rows.push_back(head - 1);
  return split;
}

Setting split() {
  const auto by_rows = [](const RunConfig& c) {
    return std::ranges::any_of(c.matrix_splits,
                               [](const MatrixSplitRule& rule) { return !rule.rows.empty(); });
  };
  return {
      "split",
      {"matrix_split", "matrix_split.name", "matrix_split.match", "matrix_split.rows",
       "matrix_split.columns"},
      {{"none", [](RunConfig& c) { c.matrix_splits.clear(); },
        [](const RunConfig& c) { return c.matrix_splits.empty(); }},
       {"heads", [](RunConfig& c) { c.matrix_splits = {heads_split(c)}; },
        [=](const RunConfig& c) { return !c.matrix_splits.empty() && !by_rows(c); }},
       {"interleaved", [](RunConfig& c) { c.matrix_splits = {interleaved_split(c)}; }, by_rows}}};
}

/// all: also embeddings and the output layer are matrices.
Setting matrices() {
  return {"matrices",
          {"muon.adamw"},
          {{"hidden", [](RunConfig& c) { c.muon_adamw = RunConfig{}.muon_adamw; },
            [](const RunConfig& c) { return !c.muon_adamw.empty(); }},
           {"all", [](RunConfig& c) { c.muon_adamw.clear(); },
            [](const RunConfig& c) { return c.muon_adamw.empty(); }}}};
}

Setting ns_eps() {
  return {"ns_eps",
          {"muon.eps"},
          {{"small", [](RunConfig& c) { c.optimizer.muon.newton_schulz.eps = small_eps; },
            [](const RunConfig& c) { return c.optimizer.muon.newton_schulz.eps < large_eps; }},
           {"large", [](RunConfig& c) { c.optimizer.muon.newton_schulz.eps = large_eps; },
            [](const RunConfig& c) { return c.optimizer.muon.newton_schulz.eps >= large_eps; }}}};
}

/// 1 has one polynomial, 5 are the usual number, and 9 use every set's last one again or its first.
Setting ns_steps() {
  const auto steps = [](auto& c) -> auto& { return c.optimizer.muon.newton_schulz.steps; };
  return {"ns_steps",
          {"muon.steps"},
          {{"1", [=](RunConfig& c) { steps(c) = 1; },
            [=](const RunConfig& c) { return steps(c) == 1; }},
           {"5", [=](RunConfig& c) { steps(c) = 5; },
            [=](const RunConfig& c) { return steps(c) > 1 && steps(c) <= 8; }},
           {"9", [=](RunConfig& c) { steps(c) = 9; },
            [=](const RunConfig& c) { return steps(c) > 8; }}}};
}

Setting scale_factor() {
  const auto factor = [](auto& c) -> auto& { return c.optimizer.muon.scale_factor; };
  return {"scale_factor",
          {"muon.scale_factor"},
          {{"1", [=](RunConfig& c) { factor(c) = 1; },
            [=](const RunConfig& c) { return factor(c) == 1; }},
           {"other", [=](RunConfig& c) { factor(c) = 0.3; },
            [=](const RunConfig& c) { return factor(c) != 1; }}}};
}

}  // namespace

MatrixSplitRule heads_split(const RunConfig& c) {
  return {"heads",
          {"*.attention.query.weight", "*.attention.key.weight", "*.attention.value.weight"},
          {},
          std::vector<std::int64_t>(static_cast<std::size_t>(c.model.heads),
                                    c.model.width / c.model.heads)};
}

std::vector<Setting> muon_settings() {
  return {
      where(muon,
            every_choice(
                "family", "muon.family", [](auto& c) -> auto& { return c.optimizer.muon.family; })),
      where(muon, every_choice(
                      "coefficients", "muon.coefficients", [](auto& c) -> auto& {
                        return c.optimizer.muon.newton_schulz.coefficients;
                      })),
      where(muon, ns_steps()),
      where(muon, every_choice(
                      "form", "muon.form",
                      [](auto& c) -> auto& { return c.optimizer.muon.newton_schulz.form; })),
      where(muon, every_choice(
                      "factors", "muon.factors",
                      [](auto& c) -> auto& { return c.optimizer.muon.newton_schulz.factors; })),
      where(muon, every_choice(
                      "floor", "muon.floor",
                      [](auto& c) -> auto& { return c.optimizer.muon.newton_schulz.floor; })),
      where(muon, ns_eps()),
      where(rounds_factors, off_and_on(
                                "rounds_first", "muon.rounds_first", [](auto& c) -> auto& {
                                  return c.optimizer.muon.newton_schulz.rounds_first;
                                })),
      where(muon, every_choice(
                      "muon_scale", "muon.scale",
                      [](auto& c) -> auto& { return c.optimizer.muon.scale; })),
      where(muon, scale_factor()),
      where(muon, matrices()),
      where(muon, split()),
      where(muon, every_choice(
                      "owners", "muon.owners", [](auto& c) -> auto& { return c.matrix_owners; })),
      where(muon, every_choice(
                      "tensor_parallel", "muon.tensor_parallel",
                      [](auto& c) -> auto& { return c.matrix_tensor_parallel; })),
  };
}

}  // namespace zeroproof::verification
