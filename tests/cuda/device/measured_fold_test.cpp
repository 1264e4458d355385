// The last fold of a step, which measures G while it writes it, against the fold followed by
// finite_norm. Runs on a GPU and, in tests/cuda/device/sim, on the simulated device.

#include <doctest.h>

#include <cstring>
#include <limits>

#include "cuda/device/step/fold_nodes.hpp"
#include "tests/cuda/device/fold_support.hpp"
#include "tests/cuda/device/step_passes_support.hpp"

namespace measured_fold_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::device_test;
using cuda::host::FoldPlan;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();
constexpr NormForm forms[] = {NormForm::chunk1024, NormForm::exact, NormForm::inf, NormForm::one};

/// Inputs of a fold and of its measurement.
struct MeasuredCase {
  std::vector<std::int64_t> numels;
  std::int64_t operands = 2;
  std::vector<DType> dtypes = {DType::bf16};
  Where where = aligned;
  NormForm form = NormForm::chunk1024;
  int log2_scale = 4;
  std::int64_t divisor = 3;
  std::uint32_t halt = 0;
  int leave_out = 0;  ///< every leave_out-th tensor does not count; 0: all count
  std::function<float(const Piece&, std::int64_t i)> special =
      {};  ///< replaces operand 0, unless it is 1
};

/// As in training, so that sums stay finite.
std::uint32_t value_bits(DType dtype, std::uint64_t i, std::uint64_t stream) {
  const float value = std::ldexp(static_cast<float>(hash(i, stream) % 4001) - 2000.0F, -9);
  if (dtype == DType::fp32) return std::bit_cast<std::uint32_t>(value * 1.000123F);
  if (dtype == DType::bf16) return std::bit_cast<std::uint32_t>(value) >> 16;
  return hash(i, stream) & 0xBBFFU;  // fp16 below 1
}

std::uint32_t special_bits(DType dtype, float value) {
  if (dtype == DType::fp32) return std::bit_cast<std::uint32_t>(value);
  if (dtype == DType::bf16) return std::bit_cast<std::uint32_t>(value) >> 16;
  return std::isnan(value) ? 0x7E00U : 0x7C00U;
}

class MeasuredRun {
 public:
  explicit MeasuredRun(const MeasuredCase& measured_case)
      : c_(measured_case),
        pieces_(pieces_of(c_.numels)),
        list_(pieces_),
        sum_(pieces_, 4, c_.where.sum) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(c_.operands); ++k) {
      const DType dtype = c_.dtypes[k % c_.dtypes.size()];
      operands_.emplace_back(pieces_, static_cast<int>(num_bytes(dtype)),
                             c_.where.operands[k % c_.where.operands.size()]);
      for (const Piece& piece : pieces_) {
        for (std::int64_t i = 0; i < piece.numel; ++i) {
          const float special = k == 0 && c_.special ? c_.special(piece, i) : 1.0F;
          const auto number = static_cast<std::uint64_t>(piece.global_begin + i);
          operands_[k].set(
              piece, i,
              special != 1.0F ? special_bits(dtype, special) : value_bits(dtype, number, k + 2));
        }
      }
      operands_[k].upload();
      values_.push_back(operands_[k].values(dtype));
    }
    std::vector<std::uint64_t> bits(pieces_.size() / 64 + 1);
    for (const Piece& piece : pieces_)
      bits[at(piece) / 64] |= std::uint64_t{counts(piece)} << (at(piece) % 64);
    counted_.emplace(bits);
  }

  /// Runs both; the results and every byte of G must be identical.
  StepFound check() {
    sum_.upload();
    enqueue_fold(list_.get(), plan(), values_, sum());
    const StepFound expected = found_by_pass();
    PlacedBuffer expected_sum = std::move(sum_);
    expected_sum.download();
    sum_ = PlacedBuffer(pieces_, 4, c_.where.sum);
    sum_.upload();
    found_.set(std::vector<StepFound>(1));
    enqueue_measured_fold(list_.get(), plan(), values_, sum(), measurement());
    const StepFound found = found_.get()[0];
    CHECK(std::memcmp(&found, &expected, sizeof found) == 0);
    sum_.download();
    std::int64_t wrong = 0;
    for (const Piece& piece : pieces_) {
      for (std::int64_t i = 0; i < piece.numel; ++i) {
        if (!same(std::bit_cast<float>(sum_.get(piece, i)),
                  std::bit_cast<float>(expected_sum.get(piece, i))))
          ++wrong;
        sum_.take_back(piece, i);
      }
    }
    CHECK(wrong == 0);
    CHECK(sum_.is_as_uploaded());
    for (PlacedBuffer& operand : operands_) {
      operand.download();
      CHECK(operand.is_as_uploaded());
    }
    return found;
  }

  void enqueue() { enqueue_measured_fold(list_.get(), plan(), values_, sum(), measurement()); }

 private:
  static std::size_t at(const Piece& piece) { return static_cast<std::size_t>(piece.tensor); }
  bool counts(const Piece& piece) const {
    return c_.leave_out == 0 || piece.tensor % c_.leave_out != 0;
  }
  FoldPlan plan() const { return FoldPlan(leaves(c_.operands)); }
  PlacedValues sum() const { return sum_.values(DType::fp32); }
  GradMeasurement measurement() const {
    return {state_.data(), input_.data(), found_.data(),
            c_.leave_out == 0 ? nullptr : counted_->data(), c_.form};
  }

  StepFound found_by_pass() {
    std::vector<StepPiece> pieces;
    for (const Piece& piece : pieces_) {
      StepPiece one;
      one.local_begin = sum().packed ? piece.local_begin : piece.global_begin - sum().base;
      one.numel = piece.numel;
      one.counted = counts(piece) ? 1 : 0;
      pieces.push_back(one);
    }
    const DeviceArray<StepPiece> table(pieces);
    StepMemory memory;
    memory.state = state_.data(), memory.input = input_.data(), memory.found = found_.data();
    memory.pieces = table.data(), memory.num_pieces = static_cast<std::int64_t>(pieces.size());
    memory.grad = static_cast<float*>(const_cast<void*>(sum().data));
    StepRules rules;
    rules.hyper.norm = c_.form;
    enqueue_finite_norm(memory, rules);
    return found_.get()[0];
  }

  static StepState state_of(const MeasuredCase& c) {
    StepState state{};
    state.applied_steps = 6;
    state.scaler.log2_scale = c.log2_scale;
    state.halt = c.halt;
    return state;
  }

  const MeasuredCase c_;
  const std::vector<Piece> pieces_;
  const DevicePieceList list_;
  std::vector<PlacedBuffer> operands_;
  std::vector<PlacedValues> values_;
  PlacedBuffer sum_;
  DeviceArray<StepState> state_{std::vector{state_of(c_)}};
  DeviceArray<StepInput> input_{std::vector{StepInput{c_.divisor, 1, 100}}};
  DeviceArray<StepFound> found_{std::vector<StepFound>(1)};
  std::optional<DeviceArray<std::uint64_t>> counted_;
};

bool is_empty(const StepFound& found) {
  const StepFound nothing{};
  return std::memcmp(&found, &nothing, sizeof found) == 0;
}

}  // namespace

TEST_CASE("device fold, measured: any number of operands, formats, places and forms of the norm") {
  if (!usable()) return;
  std::vector<std::int64_t> numels = odd_numels();
  numels.insert(numels.end(), {1023, 1025, 9000});
  for (const std::int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    for (std::size_t f = 0; f < formats.size(); ++f) {
      for (const NormForm form : forms) {
        CAPTURE(count);
        CAPTURE(f);
        CAPTURE(static_cast<int>(form));
        const StepFound found =
            MeasuredRun({numels, count, formats[f],
                         everywhere[(f + static_cast<std::size_t>(count)) % 5], form})
                .check();
        CHECK(found.found_inf == 0);
        CHECK(!is_empty(found));
      }
    }
  }
  for (const Where& where : everywhere) {
    for (const std::int64_t count : {2, 8, 130})
      MeasuredRun({{1, 70, 4099}, count, formats[3], where}).check();
  }
}

TEST_CASE("device fold, measured: a NaN, an infinity or a product that overflows, at any place") {
  if (!usable()) return;
  const std::vector<std::int64_t> numels = {1, 33, 1025, 4099};
  const std::vector<std::pair<float, int>> specials = {
      {no_number, 4}, {-infinity, 4}, {0x1p126F, -6}};
  for (const auto& [value, log2_scale] : specials) {
    for (std::int64_t tensor = 0; tensor < 4; ++tensor) {
      for (const std::int64_t place :
           {0, 31, 32, 127, 128, 511, 512, 1023, 1024, 2047, 4095, 4096, 4098}) {
        if (place >= numels[tensor]) continue;
        CAPTURE(tensor);
        CAPTURE(place);
        MeasuredCase c{
            numels, 1 + place % 3, {DType::bf16}, everywhere[static_cast<std::size_t>(place) % 5]};
        c.form = forms[place % 4];
        c.log2_scale = log2_scale;
        c.divisor = 1;
        c.leave_out = place % 2 == 0 ? 2 : 0;  // found in tensors that do not count, too
        c.special = [&, found = value](const Piece& piece, std::int64_t i) {
          return piece.tensor == tensor && i == place ? found : 1.0F;
        };
        CHECK(MeasuredRun(c).check().found_inf == 1);
      }
    }
  }
}

TEST_CASE("device fold, measured: tensors that do not count are in G but not in the norm") {
  if (!usable()) return;
  for (const NormForm form : forms) {
    MeasuredCase c{{70, 1500, 4099, 3, 2048}, 3, {DType::bf16}};
    c.form = form;
    c.leave_out = 1;
    CHECK(is_empty(MeasuredRun(c).check()));
    c.leave_out = 2;
    CHECK(!is_empty(MeasuredRun(c).check()));
  }
}

TEST_CASE(
    "device fold, measured: after a halt, or without inv_scale, G is written without results") {
  if (!usable()) return;
  for (const NormForm form : forms) {
    MeasuredCase c{{70, 1500, 4099}, 2, {DType::bf16}};
    c.form = form;
    c.special = [](const Piece&, std::int64_t i) { return i == 3 ? no_number : 1.0F; };
    c.halt = halt_schedule_left;
    CHECK(is_empty(MeasuredRun(c).check()));
    c.halt = 0;
    c.divisor = 0;
    CHECK(is_empty(MeasuredRun(c).check()));
  }
}

TEST_CASE("device fold, measured: enough pieces for carries between them") {
  if (!usable()) return;
  for (const NormForm form : forms) {
    CAPTURE(static_cast<int>(form));
    MeasuredCase c{std::vector<std::int64_t>(16700, 2), 2, {DType::bf16}};
    c.form = form;
    c.leave_out = 7;
    MeasuredRun(c).check();
  }
}

TEST_CASE("device fold, measured: one launch, no allocation, and no launch without pieces") {
  if (!usable()) return;
  for (const std::int64_t count : {1, 8, 9, 200}) {
    MeasuredRun run({{100}, count});
    check_calls({1}, [&] { run.enqueue(); });
  }
  MeasuredRun none({{}, 2});
  check_calls({}, [&] { none.enqueue(); });
  wait_for_stream();
}

}  // namespace measured_fold_test
