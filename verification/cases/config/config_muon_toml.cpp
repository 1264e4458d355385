// Keys of [muon] and [[matrix_split]] (R28).

#include "common/step/muon_names.hpp"
#include "verification/cases/config/toml_value.hpp"

namespace zeroproof {
namespace {

std::vector<std::string> globs(const Value& v) {
  return v.list<std::string>([](const Value& item) { return item.string(); }, true);
}

std::vector<std::int64_t> widths(const Value& v) {
  return v.list<std::int64_t>([](const Value& item) { return item.integer(INT64_MIN, INT64_MAX); },
                              true);
}

}  // namespace

Keys<RunConfig> muon_keys() {
  return {
      {"muon.family",
       [](RunConfig& c, const Value& v) { c.optimizer.muon.family = choice<MomentumFamily>(v); }},
      {"muon.coefficients",
       [](RunConfig& c, const Value& v) {
         c.optimizer.muon.newton_schulz.coefficients = choice<NewtonSchulzSet>(v);
       }},
      {"muon.steps",
       [](RunConfig& c, const Value& v) { c.optimizer.muon.newton_schulz.steps = v.small(); }},
      {"muon.form",
       [](RunConfig& c, const Value& v) {
         c.optimizer.muon.newton_schulz.form = choice<PolynomialForm>(v);
       }},
      {"muon.factors",
       [](RunConfig& c, const Value& v) {
         c.optimizer.muon.newton_schulz.factors = choice<MatrixFactors>(v);
       }},
      {"muon.floor",
       [](RunConfig& c, const Value& v) {
         c.optimizer.muon.newton_schulz.floor = choice<NormFloor>(v);
       }},
      {"muon.eps",
       [](RunConfig& c, const Value& v) { c.optimizer.muon.newton_schulz.eps = v.number(); }},
      {"muon.rounds_first",
       [](RunConfig& c, const Value& v) {
         c.optimizer.muon.newton_schulz.rounds_first = v.boolean();
       }},
      {"muon.scale",
       [](RunConfig& c, const Value& v) { c.optimizer.muon.scale = choice<MuonScale>(v); }},
      {"muon.scale_factor",
       [](RunConfig& c, const Value& v) { c.optimizer.muon.scale_factor = v.number(); }},
      {"muon.adamw", [](RunConfig& c, const Value& v) { c.muon_adamw = globs(v); }},
      {"muon.owners",
       [](RunConfig& c, const Value& v) { c.matrix_owners = choice<MatrixOwners>(v); }},
      {"muon.tensor_parallel",
       [](RunConfig& c, const Value& v) {
         c.matrix_tensor_parallel = choice<MatrixTensorParallel>(v);
       }},
  };
}

Keys<MatrixSplitRule> matrix_split_keys() {
  return {
      {"matrix_split.name", [](MatrixSplitRule& s, const Value& v) { s.name = v.string(); }},
      {"matrix_split.match", [](MatrixSplitRule& s, const Value& v) { s.match = globs(v); }},
      {"matrix_split.rows", [](MatrixSplitRule& s, const Value& v) { s.rows = widths(v); }},
      {"matrix_split.columns", [](MatrixSplitRule& s, const Value& v) { s.columns = widths(v); }},
  };
}

}  // namespace zeroproof
