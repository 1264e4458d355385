// State between steps, and its formats (R25).

#include "common/step/state_buffers.hpp"
#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

/// The rule has a buffer with this format setting.
bool keeps_first(const RunConfig& c) {
  return keeps(c.optimizer, StateSlot::exp_avg) || keeps(c.optimizer, StateSlot::momentum_buffer);
}

bool keeps_second(const RunConfig& c) { return keeps(c.optimizer, StateSlot::exp_avg_sq); }

/// With idle tensors too few elements of bf16 masters move at any rate, and the case would be
/// mistrusted; idle tensors are tested with masters in fp32.
bool bf16_master_moves(const RunConfig& c) {
  return c.dtypes == std::vector{DType::bf16} && !c.idle_tensors;
}

/// A bf16 master loses updates below half its last place, so that at the rate for an fp32 master
/// most elements would not move and the case would be mistrusted. A far higher rate saturates the
/// model, its gradients become 0, and nothing moves either. Both rates are the middle of the range
/// in which at least half of the elements move: updates that are divided by the root of a second
/// moment are larger.
Setting master_dtype() {
  Setting setting = every_choice(
      "master_dtype", "optimizer.master_dtype",
      [](auto& c) -> auto& { return c.state_formats.master; });
  SettingValue& bf16_master = setting.values[static_cast<std::size_t>(MasterFormat::bf16)];
  bf16_master.set = [set = bf16_master.set](RunConfig& c) {
    set(c);
    c.optimizer.lr *= keeps_second(c) ? 16 : 32;
  };
  return setting;
}

}  // namespace

std::vector<Setting> state_settings() {
  return {
      where(keeps_first, every_choice(
                             "exp_avg_dtype", "optimizer.exp_avg_dtype",
                             [](auto& c) -> auto& { return c.state_formats.exp_avg; })),
      where(keeps_second, every_choice(
                              "exp_avg_sq_dtype", "optimizer.exp_avg_sq_dtype",
                              [](auto& c) -> auto& { return c.state_formats.exp_avg_sq; })),
      where(bf16_master_moves, master_dtype()),
  };
}

}  // namespace zeroproof::verification
