// Update rules of the host implementation: values that can be checked on paper, chosen so that
// nothing is rounded.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cuda/host/base/isa.hpp"
#include "cuda/host/update_operations.hpp"

namespace host_update_test {

namespace {

using namespace zeroproof;
namespace host = zeroproof::cuda::host;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// beta1 = beta2 = 1/2 and other simple values: d = sqrt(v) + 1.
StepScalars scalars() {
  StepScalars c{};
  c.beta1 = c.one_minus_beta1 = c.beta2 = c.one_minus_beta2 = 0.5F;
  c.sqrt_bias_correction2 = 1;
  c.step_size = 0.5F;
  c.eps = 1;
  c.lr_weight_decay = 0.25F;
  c.weight_decay = 0.5F;
  c.lr = 0.25F;
  c.momentum = 0.5F;
  c.one_minus_dampening = 0.75F;
  c.has_decay = 1;
  return c;
}

/// The same element everywhere in a buffer that has full vectors and a tail.
struct Element {
  float grad = 0, master = 0, exp_avg = 0, exp_avg_sq = 0, max_exp_avg_sq = 0;
};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool all_are(const std::vector<float>& values, float want) {
  bool all = true;
  for (const float value : values) all = all && same(value, want);
  return all;
}

template <class Update>
void check_adam(Update update, const AdamOptions& options, const StepScalars& c, const Element& in,
                const Element& want) {
  constexpr std::size_t numel = 37;
  for (const Isa isa : host::supported_isas()) {
    const std::vector<float> grad(numel, in.grad);
    std::vector<float> master(numel, in.master), exp_avg(numel, in.exp_avg),
        exp_avg_sq(numel, in.exp_avg_sq);
    std::vector<float> most(options.amsgrad ? numel : 0, in.max_exp_avg_sq);
    update(Exec{1, isa}, options, c, grad, master, exp_avg, exp_avg_sq, most);
    CAPTURE(host::name(isa));
    CHECK(all_are(master, want.master));
    CHECK(all_are(exp_avg, want.exp_avg));
    CHECK(all_are(exp_avg_sq, want.exp_avg_sq));
    if (options.amsgrad) CHECK(all_are(most, want.max_exp_avg_sq));
    CHECK(all_are(grad, in.grad));
  }
}

void check_sgd(const SgdOptions& options, const StepScalars& c, float grad, float master,
               float buffer, float want_master, float want_buffer) {
  constexpr std::size_t numel = 37;
  for (const Isa isa : host::supported_isas()) {
    std::vector<float> masters(numel, master), buffers(options.momentum ? numel : 0, buffer);
    host::sgd_update({1, isa}, options, c, std::vector<float>(numel, grad), masters, buffers);
    CAPTURE(host::name(isa));
    CHECK(all_are(masters, want_master));
    CHECK(all_are(buffers, want_buffer));
  }
}

constexpr std::size_t more_than_a_tile = 1029;

/// The new parameter, everywhere the same, of one that is 4. update(grads, masters).
template <class Update>
std::uint16_t updated_from_4(std::uint16_t grad, const Update& update) {
  const std::vector<bf16> grads(more_than_a_tile, bf16{grad});
  std::vector<bf16> masters(more_than_a_tile, bf16{0x4080});
  update(grads, masters);
  for (const bf16 master : masters) REQUIRE(master.bits == masters[0].bits);
  return masters[0].bits;
}

}  // namespace

TEST_CASE("adamw: by hand, with amsgrad and maximize") {
  const StepScalars c = scalars();
  // m = 1 + 2 = 3; v = 1 + 8 = 9; q = 3 / 4; a = 3/8; w = 1; u = 11/8
  check_adam(host::adamw_update, {}, c, {4, 4, 2, 2, 0}, {4, 2.625F, 3, 9, 0});
  // ascend: m = 1 - 2 = -1; q = -1/4; a = -1/8; u = 7/8
  check_adam(host::adamw_update, {false, true}, c, {4, 4, 2, 2, 0}, {4, 3.125F, -1, 9, 0});
  // the maximum 25 stays: q = 3 / 6; a = 1/4; u = 5/4.  The maximum 1 is overtaken.
  check_adam(host::adamw_update, {true, false}, c, {4, 4, 2, 2, 25}, {4, 2.75F, 3, 9, 25});
  check_adam(host::adamw_update, {true, false}, c, {4, 4, 2, 2, 1}, {4, 2.625F, 3, 9, 9});
}

TEST_CASE("adam: the decay is part of the gradient before the moments, and added only there") {
  StepScalars c = scalars();
  // w = 2; g = 4; m = 3; v = 9; a = 3/8
  check_adam(host::adam_update, {}, c, {2, 4, 2, 2, 0}, {2, 3.625F, 3, 9, 0});
  // the sign flips before the decay is added: g = -2 + 2 = 0; m = 1; v = 1; a = 1/4
  check_adam(host::adam_update, {false, true}, c, {2, 4, 2, 2, 0}, {2, 3.75F, 1, 1, 0});
  check_adam(host::adam_update, {true, false}, c, {2, 4, 2, 2, 25}, {2, 3.75F, 3, 9, 25});
  c.sqrt_bias_correction2 = 0.5F;  // r = 6; with eps = 2: q = 3 / 8; a = 3/16
  c.eps = 2;
  check_adam(host::adam_update, {}, c, {2, 4, 2, 2, 0}, {2, 3.8125F, 3, 9, 0});
}

TEST_CASE("adam, adamw of bf16 parameters: one rounding to nearest even, by hand") {
  // The numbers of the cases above, then one unit of 2^-6 in the last place of 2.625 = 0x4028.
  StepScalars c = scalars();
  for (const Isa isa : host::supported_isas()) {
    CAPTURE(host::name(isa));
    const auto updated = [&](AdamwUpdateBf16Fn* update, std::uint16_t grad) {
      std::vector<float> exp_avg(more_than_a_tile, 2), exp_avg_sq(more_than_a_tile, 2);
      const std::uint16_t master = updated_from_4(grad, [&](const auto& grads, auto& masters) {
        update(Exec{1, isa}, {}, c, grads, masters, exp_avg, exp_avg_sq, {});
      });
      CHECK(all_are(exp_avg, 3));
      CHECK(all_are(exp_avg_sq, 9));
      return master;
    };
    c = scalars();
    CHECK(updated(host::adamw_update_bf16, 0x4080) == 0x4028);  // grad 4: 2.625
    CHECK(updated(host::adam_update_bf16, 0x4000) == 0x4068);   // grad 2: 3.625
    c.step_size += 0x1p-6F;  // a grows by 3/4 * 2^-6, more than half a unit: 2.625 - 2^-6
    CHECK(updated(host::adamw_update_bf16, 0x4080) == 0x4027);
    c.step_size = scalars().step_size + 0x1p-7F;  // by 3/4 * 2^-7, less than half a unit
    CHECK(updated(host::adamw_update_bf16, 0x4080) == 0x4028);
  }
}

TEST_CASE("sgd, lion of bf16 parameters: one rounding to nearest even, by hand") {
  // The numbers of the cases below. Near them a unit in the last place is 2^-6.
  for (const Isa isa : host::supported_isas()) {
    CAPTURE(host::name(isa));
    const auto sgd = [&](const SgdOptions& options, float more_lr) {
      StepScalars c = scalars();
      c.lr += more_lr;
      std::vector<float> buffer(options.momentum ? more_than_a_tile : 0, 8);
      const std::uint16_t master = updated_from_4(0x3F80, [&](const auto& grads, auto& masters) {
        host::sgd_update_bf16({1, isa}, options, c, grads, masters, buffer);
      });
      CHECK(all_are(buffer, 6.25F));
      return master;
    };
    CHECK(sgd({}, 0) == 0x4050);                    // 3.25
    CHECK(sgd({false, false, true}, 0) == 0x4070);  // 3.75
    CHECK(sgd({true, true}, 0) == 0x401E);          // 2.46875
    CHECK(sgd({true}, 0) == 0x401C);                // 2.4375
    CHECK(sgd({true}, 0x1p-10F) == 0x401C);         // less by 25/4 * 2^-10, not half a unit
    CHECK(sgd({true}, 0x1p-9F) == 0x401B);          // by 25/4 * 2^-9, more than half a unit

    const auto lion = [&](const LionOptions& options, std::uint16_t grad, float more_lr) {
      StepScalars c = scalars();
      c.beta2 = 0.25F;
      c.one_minus_beta2 = 0.75F;
      c.lr += more_lr;
      std::vector<float> exp_avg(more_than_a_tile, 4);
      const std::uint16_t master = updated_from_4(grad, [&](const auto& grads, auto& masters) {
        host::lion_update_bf16({1, isa}, options, c, grads, masters, exp_avg);
      });
      CHECK(all_are(exp_avg, -5));
      return master;
    };
    CHECK(lion({}, 0xC100, 0) == 0x4050);        // grad -8: 4 - (1 - 1/4)
    CHECK(lion({true}, 0x4100, 0) == 0x4050);    // grad 8, ascending
    CHECK(lion({}, 0xC100, 0x1p-8F) == 0x4050);  // more by a quarter of a unit
    CHECK(lion({}, 0xC100, 0x3p-8F) == 0x4051);  // by three quarters
  }
}

TEST_CASE("adam, adamw: without decay the term is left out, not multiplied by zero") {
  StepScalars c = scalars();
  c.has_decay = 0;
  c.weight_decay = c.lr_weight_decay = 0;
  check_adam(host::adam_update, {}, c, {4, inf, 2, 2, 0}, {4, inf, 3, 9, 0});
  check_adam(host::adamw_update, {}, c, {4, inf, 2, 2, 0}, {4, inf, 3, 9, 0});
  c.has_decay = 1;
  check_adam(host::adam_update, {}, c, {4, inf, 2, 2, 0},
             {4, not_a_number, not_a_number, not_a_number, 0});
}

TEST_CASE("amsgrad: NaN replaces the maximum, and a NaN maximum is replaced") {
  StepScalars c = scalars();
  c.has_decay = 0;
  check_adam(host::adamw_update, {true, false}, c, {not_a_number, 4, 2, 2, 25},
             {0, not_a_number, not_a_number, not_a_number, not_a_number});
  check_adam(host::adamw_update, {true, false}, c, {4, 4, 2, 2, not_a_number},
             {4, 3.625F, 3, 9, 9});
  check_adam(host::adamw_update, {true, false}, c, {0, 4, 2, 0, inf}, {0, 4, 1, 0, inf});
}

TEST_CASE("sgd: the four forms by hand") {
  StepScalars c = scalars();
  // g = 1 + 2 = 3
  check_sgd({false, false, false}, c, 1, 4, 0, 3.25F, 0);
  check_sgd({false, false, true}, c, 1, 4, 0, 3.75F, 0);        // g = -1 + 2
  check_sgd({true, false, false}, c, 1, 4, 8, 2.4375F, 6.25F);  // 4 + 9/4; s = 25/16
  check_sgd({true, true, false}, c, 1, 4, 8, 2.46875F, 6.25F);  // h = 25/8, e = 49/8, s = 49/32
  c.is_first = 1;                                               // neither read nor dampened
  check_sgd({true, false, false}, c, 1, 4, not_a_number, 3.25F, 3);
  check_sgd({true, true, false}, c, 1, 4, not_a_number, 2.875F, 3);  // h = 3/2, e = 9/2, s = 9/8
  check_sgd({false, false, false}, c, 1, 4, 0, 3.25F, 0);
  c.has_decay = 0;
  check_sgd({false, false, false}, c, 1, inf, 0, inf, 0);
  check_sgd({true, false, true}, c, 0, 4, 0, 4, -0.0F);  // the buffer starts as the bits of g
  check_sgd({true, false, false}, c, -0.0F, 4, 0, 4, -0.0F);
}

TEST_CASE("sgd_ema: by hand; is_first is not read") {
  StepScalars c = scalars();
  for (const std::uint32_t is_first : {0U, 1U}) {
    c.is_first = is_first;
    for (const Isa isa : host::supported_isas()) {
      std::vector<float> master(37, 4.0F), exp_avg(37, 8.0F);
      host::sgd_ema_update({1, isa}, {}, c, std::vector<float>(37, 1.0F), master, exp_avg);
      CHECK(all_are(exp_avg, 5.5F));   // 4 + 3/2
      CHECK(all_are(master, 2.625F));  // s = 11/8
      std::ranges::fill(master, 4.0F);
      std::ranges::fill(exp_avg, 8.0F);
      host::sgd_ema_update({1, isa}, {true}, c, std::vector<float>(37, 1.0F), master, exp_avg);
      CHECK(all_are(exp_avg, 4.5F));  // g = -1 + 2
      CHECK(all_are(master, 2.875F));
    }
  }
}

TEST_CASE("lion: by hand, with the signs of zeros and NaN; is_first is not read") {
  StepScalars c = scalars();
  c.beta2 = 0.25F;
  c.one_minus_beta2 = 0.75F;
  const auto check = [&](bool maximize, float grad, float master, float exp_avg, float new_master,
                         float new_exp_avg) {
    for (const Isa isa : host::supported_isas()) {
      for (const std::uint32_t is_first : {0U, 1U}) {
        c.is_first = is_first;
        std::vector<float> p(37, master), m(37, exp_avg);
        host::lion_update({1, isa}, {maximize}, c, std::vector<float>(37, grad), p, m);
        CHECK(all_are(p, new_master));
        CHECK(all_are(m, new_exp_avg));
      }
    }
  };
  c.has_decay = 0;
  check(false, -8, 4, 4, 4 + c.lr, -5);  // c = 2 - 4; 1 - 6: the new average would decide the same
  check(false, -3, 4, 4, 4 - c.lr, -1.25F);  // c = 2 - 3/2; 1 - 9/4: here it would not
  check(true, 3, 4, 4, 4 - c.lr, -1.25F);
  check(false, -0.0F, -0.0F, -0.0F, 0.0F, -0.0F);
  check(false, -0.0F, -0.0F, 0.0F, -0.0F, 0.0F);
  check(false, not_a_number, 4, 4, not_a_number, not_a_number);
  check(false, 1, 4, not_a_number, not_a_number, not_a_number);
  check(false, inf, 4, 4, 4 - c.lr, inf);
  check(false, 1, inf, 4, inf, 1.75F);
  c.has_decay = 1;
  check(false, -8, 4, 4, 4 - (4 * c.lr_weight_decay - c.lr), -5);
}

}  // namespace host_update_test
