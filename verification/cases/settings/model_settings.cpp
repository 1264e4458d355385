// The model, and the first state of a run.

#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

bool long_tensors(const RunConfig& c) { return c.model.width >= 64; }

/// A number of heads divisible among two and four TP ranks.
bool even_heads(const RunConfig& c) { return c.model.heads % 4 == 0; }

/// odd: sizes without common divisors. even: heads for TP ranks. long: the longest tensor has
/// 17,408 elements, more than a vector register, a chunk of the norm, a small bucket and the block
/// of a thread.
Setting model() {
  return {"model",
          {"model.layers", "model.width", "model.heads", "model.hidden", "model.context"},
          {{"odd",
            [](RunConfig& c) {
              c.model = {2, 15, 3, 37, 13};
            },
            [](const RunConfig& c) { return !long_tensors(c) && !even_heads(c); }},
           {"even",
            [](RunConfig& c) {
              c.model = {2, 20, 4, 24, 13};
            },
            [](const RunConfig& c) { return !long_tensors(c) && even_heads(c); }},
           {"long",
            [](RunConfig& c) {
              c.model = {1, 68, 4, 136, 8};
            },
            long_tensors}}};
}

SettingValue loaded(const std::string& name, std::int64_t step) {
  return {name,
          [=](RunConfig& c) {
            c.initial_state = InitialState::seeded;
            c.initial_step = step;
          },
          [=](const RunConfig& c) {
            const std::int64_t first = c.initial_step < 0 ? 7 : c.initial_step;
            return c.initial_state == InitialState::seeded && first == step;
          }};
}

/// The first step of the run. 2^24 + 1 is no fp32 number, and its successor is one.
Setting state() {
  return {"state",
          {"run.initial_state", "run.initial_step"},
          {{"fresh",
            [](RunConfig& c) {
              c.initial_state = InitialState::zero;
              c.initial_step = -1;
            },
            [](const RunConfig& c) {
              return c.initial_state == InitialState::zero && c.initial_step <= 0;
            }},
           loaded("7", 7),
           loaded("1001", 1001),
           loaded("16777217", 16777217)}};
}

}  // namespace

std::vector<Setting> model_settings() {
  const auto count = [](auto& c) -> auto& { return c.micro_batches; };
  // Powers of two hide a wrong index of the tree, and 1 has none.
  return {model(), state(),
          these_values<decltype(count), std::int64_t>(
              "micro_batches", "run.micro_batches", count,
              {{"1", 1}, {"2", 2}, {"6", 6}, {"7", 7}, {"16", 16}})};
}

}  // namespace zeroproof::verification
