#pragma once
// Checkpoints of states that train nothing.

#include <array>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_saver.hpp"
#include "common/io/checkpoint/checkpoint_reader.hpp"
#include "tests/common/checkpoint/held_state.hpp"

namespace zeroproof::tests {

inline constexpr const char* held_run = "0123456789abcdef0123456789abcdef";
inline constexpr std::array saved_ids = {BufferId::master, BufferId::exp_avg, BufferId::exp_avg_sq};

inline CheckpointContent held_content(std::int64_t step) {
  CheckpointContent content;
  content.contract = "1";
  content.run = held_run;
  content.step = step;
  content.about["note"] = "step " + std::to_string(step);
  return content;
}

/// As the checkpoint of step 41.
inline void save_held(const std::string& folder, const Held& held, const HeldBits& bits) {
  run_grid(held.grid, [&](const GridPlace& place) {
    HeldState state(held, place, bits);
    CheckpointSaver saver(folder, *place.all, 0, SaveMode::synchronous);
    saver.save(state, state.setup(), held_layout(), held_content(41));
  });
}
inline void save_held(const std::string& folder, const Held& held, int salt) {
  save_held(folder, held, held_values(salt));
}

/// "" if a checkpoint is complete and has the values of a salt; else the problem.
inline std::string held_problem(const std::string& folder, std::int64_t step, int salt) {
  try {
    const CheckpointReader reader(CheckpointRoot(folder), step);
    reader.verify();
    for (const BufferId id : saved_ids) {
      for (std::size_t t = 0; t < held_layout().tensors().size(); ++t) {
        const TensorSlot& slot = held_layout().tensors()[t];
        std::vector<float> values(slot.numel, -1.0F);
        reader.read(std::string(name(id)), static_cast<std::int64_t>(t), 0, values);
        for (std::int64_t e = 0; e < slot.numel; ++e) {
          if (values[e] != held_value(id, slot.begin + e, salt))
            return std::string(name(id)) + "." + slot.name + " differs at " + std::to_string(e);
        }
      }
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace zeroproof::tests
