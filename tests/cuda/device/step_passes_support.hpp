#pragma once
// A step in device memory, in phases or in two passes, compared with the expected result.

#include <doctest.h>

#include <memory>
#include <string>

#include "tests/cuda/device/device_runtime_support.hpp"
#include "tests/cuda/device/step_passes_truth.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace zeroproof::device_test {

/// count values of device memory, `shift` values after a 256-byte boundary, between guard bytes.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, int shift = 0)
      : count_(values.size()),
        before_((64 + static_cast<std::size_t>(shift)) * sizeof(T)),
        memory_(static_cast<std::int64_t>(before_ + count_ * sizeof(T) + 64)) {
    set(values);
  }
  T* data() const { return reinterpret_cast<T*>(memory_.data() + before_); }

  void set(const std::vector<T>& values) {
    Bytes bytes(before_ + count_ * sizeof(T) + 64, 0xA5);
    if (count_ > 0) std::memcpy(bytes.data() + before_, values.data(), count_ * sizeof(T));
    put(memory_.data(), bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }
  std::vector<T> get() const {
    const Bytes bytes = memory_.bytes();
    std::vector<T> values(count_);
    if (count_ > 0) std::memcpy(values.data(), bytes.data() + before_, count_ * sizeof(T));
    std::size_t changed = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if ((i < before_ || i >= before_ + count_ * sizeof(T)) && bytes[i] != 0xA5) ++changed;
    }
    CHECK(changed == 0);
    return values;
  }

 private:
  std::size_t count_, before_;
  DeviceBytes memory_;
};

inline std::vector<device::StepPiece> pieces_of(const StepTruth& truth) {
  std::vector<device::StepPiece> pieces;
  for (std::size_t part = 0; part < truth.num_parts(); ++part) {
    const PartSpec& spec = truth.c.parts[part];
    for (std::int64_t at = 0; at < spec.numel; at += truth.c.piece_numel) {
      device::StepPiece piece;
      piece.local_begin = static_cast<std::int64_t>(truth.begin(part)) + at;
      piece.numel = std::min(truth.c.piece_numel, spec.numel - at);
      piece.tensor = static_cast<std::int64_t>(part);
      piece.tensor_begin = spec.tensor_begin + at;
      piece.group = spec.group;
      piece.counted = spec.counted ? 1 : 0;
      piece.place_begin = spec.place_begin;
      piece.row_numel = spec.row_numel;
      piece.row_stride = spec.row_stride;
      pieces.push_back(piece);
    }
  }
  return pieces;
}

enum class Way : std::uint8_t { phases, two_passes, of_ranks };

class StepOnDevice {
 public:
  explicit StepOnDevice(const StepTruth& start);

  device::StepMemory memory;
  const device::StepRules rules;
  DeviceArray<device::StepState> state;
  DeviceArray<device::StepInput> input;
  DeviceArray<device::StepFound> found{std::vector<device::StepFound>(1)};

  /// Clears the results before a step.
  void begin(const std::vector<float>& sum, const std::vector<bool>& grads);
  void decide(std::uint32_t parts, bool look = false) {
    enqueue_decide(memory, rules, parts, look);
  }
  /// The trust ratios, for the rule that has them.
  void make_ratios(bool fused);
  /// A whole step of one rank. As in a run, the host of the phases reads flags.
  void step(Way way, const std::vector<float>& sum, const std::vector<bool>& grads);

  device::StepFound seen() const { return found.get()[0]; }
  void set_found(const device::StepFound& value) { found.set(std::vector{value}); }
  std::vector<StepScalars> scalars() const { return scalars_.get(); }

  /// State, counts and every element of every buffer, including gaps.
  void check_memory(const StepTruth& truth, const std::vector<float>& expected_grad) const;
  void check_found(const StepTruth& truth, Way way) const;

 private:
  DeviceArray<StepScalars> scalars_;
  DeviceArray<std::uint64_t> steps_, has_grad_;
  DeviceArray<std::int64_t> groups_;
  DeviceArray<std::uint64_t> trust_sums_;
  DeviceArray<float> ratios_;
  DeviceArray<device::ScheduleRow> schedule_;
  DeviceArray<device::StepPiece> pieces_;
  std::vector<std::unique_ptr<DeviceArray<float>>>
      buffers_;  // [num_buffers], null if the rule has none
  std::unique_ptr<DeviceArray<std::uint16_t>> half_param_;
  std::unique_ptr<DeviceArray<std::uint32_t>> full_param_;
};

inline bool has_buffer(const OptimizerHyper& h, int buffer) {
  const bool adam = h.rule == UpdateRule::adamw || h.rule == UpdateRule::adam;
  const bool lamb = h.rule == UpdateRule::lamb;
  if (buffer == exp_avg) return h.rule != UpdateRule::sgd;
  if (buffer == exp_avg_sq) return adam || lamb;
  if (buffer == max_exp_avg_sq) return adam && h.amsgrad;
  if (buffer == momentum_buffer) return h.rule == UpdateRule::sgd && h.momentum != 0;
  return true;
}

inline std::vector<std::int64_t> groups_of(const StepCase& c) {
  std::vector<std::int64_t> groups;
  for (const PartSpec& part : c.parts) groups.push_back(part.group);
  return groups;
}

inline StepOnDevice::StepOnDevice(const StepTruth& start)
    : rules(start.c.rules),
      state(std::vector{start.state}),
      input(std::vector{
          device::StepInput{start.c.divisor, start.c.first_row_t,
                            std::int64_t(start.c.schedule.size()) / start.c.num_groups}}),
      scalars_(std::vector<StepScalars>(
          start.c.own_counts ? start.num_parts() : static_cast<std::size_t>(start.c.num_groups))),
      steps_(start.steps),
      has_grad_(std::vector<std::uint64_t>(start.num_parts() / 64 + 1)),
      groups_(groups_of(start.c)),
      trust_sums_(std::vector<std::uint64_t>(start.num_parts() * 2 * device::num_norm_words)),
      ratios_(start.ratios),
      schedule_(start.c.schedule),
      pieces_(pieces_of(start)) {
  const StepCase& c = start.c;
  for (int i = 0; i < num_buffers; ++i) {
    const auto n = static_cast<std::size_t>(i);
    buffers_.push_back(has_buffer(rules.hyper, i)
                           ? std::make_unique<DeviceArray<float>>(start.b[n], c.shifts[n])
                           : nullptr);
  }
  const auto pointer = [&](Buffer buffer) {
    return buffers_[buffer] ? buffers_[buffer]->data() : nullptr;
  };
  if (rules.param_dtype == DType::fp32) {
    full_param_ = std::make_unique<DeviceArray<std::uint32_t>>(start.param, c.shifts[num_buffers]);
    memory.param = full_param_->data();
  } else {
    const std::vector<std::uint16_t> half(start.param.begin(), start.param.end());
    half_param_ = std::make_unique<DeviceArray<std::uint16_t>>(half, c.shifts[num_buffers]);
    memory.param = half_param_->data();
  }
  memory.state = state.data(), memory.input = input.data(), memory.found = found.data();
  memory.scalars = scalars_.data(), memory.schedule = schedule_.data(),
  memory.pieces = pieces_.data();
  memory.tensor_groups = groups_.data();
  memory.trust = {trust_sums_.data(), ratios_.data()};
  if (c.own_counts) memory.tensor_steps = steps_.data(), memory.has_grad = has_grad_.data();
  memory.grad = pointer(grad), memory.master = pointer(master);
  memory.slots = {pointer(exp_avg), pointer(exp_avg_sq), pointer(max_exp_avg_sq),
                  pointer(momentum_buffer)};
  memory.num_sets = static_cast<std::int64_t>(scalars_.get().size());
  memory.num_groups = c.num_groups,
  memory.num_tensors = static_cast<std::int64_t>(start.num_parts());
  memory.num_pieces = static_cast<std::int64_t>(pieces_of(start).size());
}

inline void StepOnDevice::begin(const std::vector<float>& sum, const std::vector<bool>& grads) {
  buffers_[grad]->set(sum);
  found.set(std::vector<device::StepFound>(1));
  std::vector<std::uint64_t> bits(has_grad_.get().size());
  for (std::size_t i = 0; i < grads.size(); ++i)
    bits[i / 64] |= std::uint64_t{grads[i]} << (i % 64);
  has_grad_.set(bits);
}

inline void StepOnDevice::make_ratios(bool fused) {
  if (rules.hyper.rule != UpdateRule::lamb) return;
  trust_sums_.set(std::vector<std::uint64_t>(trust_sums_.get().size()));
  enqueue_trust_norms(memory, rules, fused);
  enqueue_trust_ratios(memory);
}

inline void StepOnDevice::step(Way way, const std::vector<float>& sum,
                               const std::vector<bool>& grads) {
  begin(sum, grads);
  if (way != Way::phases) {
    const bool of_ranks = way == Way::of_ranks;
    enqueue_finite_norm(memory, rules, of_ranks);
    decide((of_ranks ? 0U : device::decide_scalars) | device::decide_scaler | device::decide_norm |
               device::decide_clip | device::decide_count,
           of_ranks);
    make_ratios(true);
    enqueue_fused_update(memory, rules);
    return;
  }
  decide(device::decide_scalars);
  enqueue_unscale(memory);
  decide(device::decide_scaler, true);
  if (seen().skipped != 0) return;
  enqueue_norm(memory, rules);
  decide(device::decide_norm);
  decide(device::decide_clip);
  enqueue_clip(memory, rules);
  make_ratios(false);
  decide(device::decide_count);
  enqueue_update(memory, rules);
  enqueue_cast(memory, rules);
}

/// Index of the first position with different bits (R9), or -1.
inline std::int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (tests::bits(a[i]) != tests::bits(b[i])) return static_cast<std::int64_t>(i);
  }
  return -1;
}

inline void StepOnDevice::check_memory(const StepTruth& truth,
                                       const std::vector<float>& expected_grad) const {
  const device::StepState now = state.get()[0];
  CHECK(now.applied_steps == truth.state.applied_steps);
  CHECK(now.scaler == truth.state.scaler);
  CHECK(now.halt == truth.state.halt);
  CHECK(steps_.get() == truth.steps);
  CHECK(first_difference(ratios_.get(), truth.ratios) == -1);
  for (std::size_t i = 0; i < num_buffers; ++i) {
    if (!buffers_[i]) continue;
    CAPTURE(i);
    CHECK(first_difference(buffers_[i]->get(), i == grad ? expected_grad : truth.b[i]) == -1);
  }
  std::vector<std::uint32_t> param;
  if (full_param_) {
    param = full_param_->get();
    for (std::uint32_t& word : param) word = tests::bits(std::bit_cast<float>(word));
  } else {
    const std::vector<std::uint16_t> half = half_param_->get();
    param.assign(half.begin(), half.end());
  }
  const auto differ =
      std::mismatch(param.begin(), param.end(), truth.param.begin()).first - param.begin();
  CHECK(differ == static_cast<std::ptrdiff_t>(param.size()));
}

inline void StepOnDevice::check_found(const StepTruth& truth, Way way) const {
  const device::StepFound now = seen();
  CHECK(now.t == truth.found.t);
  CHECK(now.found_inf == truth.found.found_inf);
  CHECK(now.skipped == truth.found.skipped);
  CHECK(now.finished_blocks == 0);
  CHECK(now.digest == ~now.not_digest);
  CHECK(tests::bits(now.grad_norm) == tests::bits(truth.found.grad_norm));
  CHECK(tests::bits(now.clip_coef) == tests::bits(truth.found.clip_coef));
  const bool measured = way != Way::phases || now.skipped == 0;  // a skipped step has no norm phase
  CHECK(now.amax == (measured ? truth.found.amax : 0));
  for (int i = 0; i < device::num_norm_words; ++i) {
    CAPTURE(i);
    CHECK(now.sums[i] == (measured ? truth.found.sums[i] : 0));
  }
  const std::vector<StepScalars> made = scalars();
  REQUIRE(made.size() == truth.scalars.size());
  CHECK(std::memcmp(made.data(), truth.scalars.data(), made.size() * sizeof(StepScalars)) == 0);
}

}  // namespace zeroproof::device_test
