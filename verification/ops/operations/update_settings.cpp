#include "verification/ops/operations/update_settings.hpp"
#include "reference/operations.hpp"

namespace zeroproof::verification {
namespace {

/// Typical values, in the third step of a training.
void typical(UpdateSettings& s) {
  s.t = 3;
  s.hyper.lr = 1e-3;
  s.hyper.weight_decay = 0.01;
}

/// The first step, with factors that are exactly 0 and 1 and are still multiplied with, and without decay (R6).
void first_step(UpdateSettings& s) {
  s.t = 1;
  s.hyper.lr = 0;
  s.hyper.beta1 = 0;
  s.hyper.weight_decay = 0;
  s.hyper.bias_correction = false;
}

/// Large steps, a large eps and strong decay: every line of the formula shows in the last bits of the result.
void strong(UpdateSettings& s) {
  s.t = 2;
  s.hyper.lr = 1.3125;  // step_size 1.75
  s.hyper.beta1 = 0.5F;
  s.hyper.beta2 = 0.5F;
  s.hyper.eps = 0.1;
  s.hyper.weight_decay = 0.7;
  if (s.hyper.momentum == 0) return;
  s.hyper.momentum = 0.37;
  const bool dampens = !s.hyper.nesterov && traits_of(s.hyper.rule).momentum();  // R5
  s.hyper.dampening = dampens ? 0.39 : 0;
}

}  // namespace

std::vector<std::string> update_set_names() {
  return {"typical", "no decay, factors 0 and 1", "strong"};
}

std::vector<std::string> update_variants(std::initializer_list<const char*> forms) {
  std::vector<std::string> all;
  for (const std::string& scalars : update_set_names()) {
    for (const char* form : forms) all.push_back(scalars + " " + form);
  }
  return all;
}

UpdateSettings update_settings(int number, OptimizerHyper options) {
  UpdateSettings s{options};
  if (s.hyper.momentum != 0) s.hyper.momentum = 0.9;
  (number == 0 ? typical : number == 1 ? first_step : strong)(s);
  s.scalars = reference::step_scalars(s.hyper, s.t, 0, 1);
  return s;
}

std::vector<OpSetting> described(const UpdateSettings& settings) {
  const OptimizerHyper& h = settings.hyper;
  const StepScalars& s = settings.scalars;
  const auto flag = [](bool on) { return std::int64_t{on ? 1 : 0}; };
  const auto real = [](float x) { return double{x}; };
  return {{"t", settings.t},
          {"lr", h.lr},
          {"beta1", real(s.beta1)},
          {"beta2", real(s.beta2)},
          {"eps", h.eps},
          {"weight_decay", h.weight_decay},
          {"momentum", h.momentum},
          {"dampening", h.dampening},
          {"bias_correction", flag(h.bias_correction)},
          {"amsgrad", flag(h.amsgrad)},
          {"nesterov", flag(h.nesterov)},
          {"maximize", flag(h.maximize)},
          {"scalar.one_minus_beta1", real(s.one_minus_beta1)},
          {"scalar.one_minus_beta2", real(s.one_minus_beta2)},
          {"scalar.sqrt_bias_correction2", real(s.sqrt_bias_correction2)},
          {"scalar.step_size", real(s.step_size)},
          {"scalar.eps", real(s.eps)},
          {"scalar.lr_weight_decay", real(s.lr_weight_decay)},
          {"scalar.weight_decay", real(s.weight_decay)},
          {"scalar.lr", real(s.lr)},
          {"scalar.momentum", real(s.momentum)},
          {"scalar.one_minus_dampening", real(s.one_minus_dampening)},
          {"scalar.has_decay", std::int64_t{s.has_decay}},
          {"scalar.is_first", std::int64_t{s.is_first}}};
}

std::vector<OpSetting> described(const NewtonSchulzOptions& options) {
  return {{"coefficients", static_cast<std::int64_t>(options.coefficients)},
          {"steps", std::int64_t{options.steps}},
          {"form", static_cast<std::int64_t>(options.form)},
          {"factors", static_cast<std::int64_t>(options.factors)},
          {"floor", static_cast<std::int64_t>(options.floor)},
          {"eps", options.eps},
          {"rounds_first", std::int64_t{options.rounds_first ? 1 : 0}}};
}

std::vector<OpSetting> described(const NewtonSchulzOptions& options, std::int64_t rows,
                                 std::int64_t columns) {
  std::vector<OpSetting> all = described(options);
  all.insert(all.begin(), {{"rows", rows}, {"columns", columns}});
  return all;
}

std::vector<OpSetting> described(const MuonSettings& settings, const StepScalars& scalars) {
  return {{"scale", static_cast<std::int64_t>(settings.scale)},
          {"scale_factor", settings.scale_factor},
          {"scalar.lr", double{scalars.lr}}};
}

std::vector<OpSetting> described_momentum(const UpdateSettings& settings) {
  std::vector<OpSetting> all = described(settings);
  const bool heavy_ball = settings.hyper.muon.family == MomentumFamily::heavy_ball;
  all.push_back({"heavy_ball", std::int64_t{heavy_ball ? 1 : 0}});
  return all;
}

}  // namespace zeroproof::verification
