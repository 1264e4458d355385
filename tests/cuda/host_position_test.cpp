// R17 for the operations of contract version 2: an element's result does not depend on its place, the length, the
// instruction set or the threads, and nothing outside the views is touched.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/host/adam.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/isa.hpp"
#include "cuda/host/sgd.hpp"
#include "cuda/host/step_scalars.hpp"

namespace {

using namespace zeroproof;
namespace host = zeroproof::cuda::host;

constexpr std::size_t pool_numel = 1100;
constexpr std::size_t max_offset = 32;

using Bytes = std::vector<std::byte>;

/// The operands of a call as views of `numel` elements; `index` is the global index of the first.
struct Call {
  Exec exec;
  std::vector<std::byte*> at;
  std::size_t numel;
  std::uint64_t index;

  template <class T = float>
  Span<T> view(std::size_t operand) const {
    return {reinterpret_cast<T*>(at[operand]), numel};
  }
};

struct Op {
  std::string name;
  std::vector<DType> types;  ///< of every operand
  std::function<void(const Call&)> run;
};

StepScalars scalars(UpdateRule rule, std::int64_t t) {
  OptimizerHyper hyper;
  hyper.rule = rule;
  hyper.weight_decay = 0.1;
  if (rule == UpdateRule::sgd) hyper.momentum = 0.9;
  return host::step_scalars(hyper, t, 0, 3);
}

std::vector<Op> ops() {
  const StepScalars adamw = scalars(UpdateRule::adamw, 3), adam = scalars(UpdateRule::adam, 3);
  const StepScalars sgd = scalars(UpdateRule::sgd, 3), sgd_first = scalars(UpdateRule::sgd, 1);
  const StepScalars ema = scalars(UpdateRule::sgd_ema, 3);
  constexpr DType fp32 = DType::fp32;
  const std::vector<DType> two(2, fp32), three(3, fp32), four(4, fp32), five(5, fp32);
  std::vector<Op> all;
  all.push_back({"adamw amsgrad", five, [=](const Call& c) {
                   host::adamw_update(c.exec, {true, true}, adamw, c.view(0), c.view(1), c.view(2), c.view(3),
                                      c.view(4));
                 }});
  all.push_back({"adam", four, [=](const Call& c) {
                   host::adam_update(c.exec, {}, adam, c.view(0), c.view(1), c.view(2), c.view(3), {});
                 }});
  all.push_back(
      {"adam amsgrad", five, [=](const Call& c) {
         host::adam_update(c.exec, {true, true}, adam, c.view(0), c.view(1), c.view(2), c.view(3), c.view(4));
       }});
  all.push_back(
      {"sgd", two, [=](const Call& c) { host::sgd_update(c.exec, {}, sgd, c.view(0), c.view(1), {}); }});
  all.push_back({"sgd momentum", three, [=](const Call& c) {
                   host::sgd_update(c.exec, {true, false, true}, sgd, c.view(0), c.view(1), c.view(2));
                 }});
  all.push_back({"sgd nesterov", three, [=](const Call& c) {
                   host::sgd_update(c.exec, {true, true, false}, sgd, c.view(0), c.view(1), c.view(2));
                 }});
  all.push_back({"sgd nesterov first", three, [=](const Call& c) {
                   host::sgd_update(c.exec, {true, true, false}, sgd_first, c.view(0), c.view(1), c.view(2));
                 }});
  all.push_back({"sgd_ema", three, [=](const Call& c) {
                   host::sgd_ema_update(c.exec, {}, ema, c.view(0), c.view(1), c.view(2));
                 }});
  all.push_back({"clip_value", {fp32}, [](const Call& c) { host::clip_value(c.exec, 0.25F, c.view(0)); }});
  all.push_back({"cast_to_e4m3", {fp32, DType::e4m3}, [](const Call& c) {
                   host::cast_to_e4m3(c.exec, c.view(0), c.view<e4m3>(1));
                 }});
  all.push_back({"cast_to_e5m2", {fp32, DType::e5m2}, [](const Call& c) {
                   host::cast_to_e5m2(c.exec, c.view(0), c.view<e5m2>(1));
                 }});
  all.push_back({"widen_e4m3", {fp32, DType::e4m3}, [](const Call& c) {
                   host::widen_e4m3(c.exec, c.view<const e4m3>(1), c.view(0));
                 }});
  all.push_back({"widen_e5m2", {fp32, DType::e5m2}, [](const Call& c) {
                   host::widen_e5m2(c.exec, c.view<const e5m2>(1), c.view(0));
                 }});
  all.push_back({"stochastic_cast_to_bf16", {fp32, DType::bf16}, [](const Call& c) {
                   host::stochastic_cast_to_bf16(c.exec, {9, 4, c.index}, c.view(0), c.view<bf16>(1));
                 }});
  all.push_back({"fused adam fp16", {fp32, fp32, fp32, fp32, DType::fp16}, [=](const Call& c) {
                   host::FusedOptions options{.rule = UpdateRule::adam, .clip_value = 0.25F};
                   host::fused_update(c.exec, options, adam, 0.5F, c.view(0),
                                      {c.view(1), c.view(2), c.view(3)},
                                      {c.at[4], DType::fp16, static_cast<std::int64_t>(c.numel)});
                 }});
  all.push_back({"fused sgd stochastic", {fp32, fp32, fp32, DType::bf16}, [=](const Call& c) {
                   host::FusedOptions options{.rule = UpdateRule::sgd, .momentum = true, .nesterov = true};
                   options.draw = RoundingDraw{9, 4, c.index};
                   host::FusedState state{.master = c.view(1)};
                   state.momentum_buffer = c.view(2);
                   host::fused_update(c.exec, options, sgd, 0.5F, c.view(0), state,
                                      {c.at[3], DType::bf16, static_cast<std::int64_t>(c.numel)});
                 }});
  return all;
}

std::size_t size_of(DType type) { return static_cast<std::size_t>(num_bytes(type)); }

/// Ordinary values with specials strewn in, any pattern in the 8-bit and 16-bit formats. From operand 3 on (second
/// moments) without signs, so that roots exist.
Bytes pool(DType type, std::size_t operand) {
  const Philox philox(operand + 1);
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> specials = {0.0F,      -0.0F,      inf,      -inf,      std::nanf(""),
                                       0x1p-149F, -0x1p-127F, 0x1p126F, -0x1p127F, 0x1.8p-10F,
                                       0x1p-17F,  448.0F,     464.0F,   61440.0F};
  const std::size_t size = size_of(type);
  Bytes bytes(pool_numel * size);
  for (std::size_t i = 0; i < pool_numel; ++i) {
    const std::uint32_t word = philox.word(i);
    const float value = word % 8 == 0 ? specials[word / 8 % specials.size()] : philox.bell(i + 4096) * 0.5F;
    std::uint32_t bits = type == DType::fp32 ? std::bit_cast<std::uint32_t>(value) : word;
    if (type == DType::fp32 && operand >= 3) bits &= 0x7FFFFFFFU;
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

bool is_nan(const std::byte* at, DType type) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, size_of(type));
  switch (type) {
    case DType::fp32:
      return (bits & 0x7FFFFFFFU) > 0x7F800000U;
    case DType::bf16:
      return (bits & 0x7FFFU) > 0x7F80U;
    case DType::fp16:
      return (bits & 0x7FFFU) > 0x7C00U;
    case DType::e4m3:
      return (bits & 0x7FU) == 0x7FU;
    default:
      return (bits & 0x7FU) > 0x7CU;
  }
}

/// Equal bits, or both NaN (R9).
bool same(const std::byte* a, const std::byte* b, DType type) {
  return std::memcmp(a, b, size_of(type)) == 0 || (is_nan(a, type) && is_nan(b, type));
}

/// Every element alone, baseline: what all other calls must give.
std::vector<Bytes> one_by_one(const Op& op, std::vector<Bytes> operands) {
  for (std::size_t i = 0; i < pool_numel; ++i) {
    Call call{{1, Isa::x86_64, {}}, {}, 1, i};
    for (std::size_t k = 0; k < operands.size(); ++k)
      call.at.push_back(operands[k].data() + i * size_of(op.types[k]));
    op.run(call);
  }
  return operands;
}

/// Copies the operands to 64-byte aligned storage plus an offset, runs, and counts wrong elements and neighbours.
std::size_t wrong_at(const Op& op, const Exec& exec, const std::vector<Bytes>& operands,
                     const std::vector<Bytes>& want, std::size_t numel, std::size_t offset) {
  constexpr std::size_t room = 64;  // elements on either side
  const std::byte filler{0xA5};
  std::vector<Bytes> storage;
  std::vector<std::byte*> starts;
  Call call{exec, {}, numel, offset};  // the elements are those from `offset` of the pool on
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const std::size_t size = size_of(op.types[k]), shift = (offset + 7 * k) % (max_offset + 1);
    storage.emplace_back((numel + 2 * room + max_offset) * size + 64, filler);
    const auto address = reinterpret_cast<std::uintptr_t>(storage.back().data());
    starts.push_back(storage.back().data() + (64 - address % 64) % 64 + (room + shift) * size);
    std::memcpy(starts.back(), operands[k].data() + offset * size, numel * size);
    call.at.push_back(starts.back());
  }
  op.run(call);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const std::size_t size = size_of(op.types[k]);
    for (std::size_t i = 0; i < numel; ++i) {
      if (!same(starts[k] + i * size, want[k].data() + (offset + i) * size, op.types[k])) ++wrong;
    }
    const std::byte* begin = storage[k].data();
    const std::byte* end = begin + storage[k].size();
    wrong += static_cast<std::size_t>(starts[k] - begin -
                                      std::count(begin, static_cast<const std::byte*>(starts[k]), filler));
    const std::byte* behind = starts[k] + numel * size;
    wrong += static_cast<std::size_t>(end - behind - std::count(behind, end, filler));
  }
  return wrong;
}

}  // namespace

TEST_CASE("positions: every offset, odd lengths, every instruction set, neighbours untouched") {
  for (const Op& op : ops()) {
    std::vector<Bytes> operands;
    for (std::size_t k = 0; k < op.types.size(); ++k) operands.push_back(pool(op.types[k], k));
    const std::vector<Bytes> want = one_by_one(op, operands);
    CAPTURE(op.name);
    CHECK(want != operands);
    for (const Isa isa : host::supported_isas()) {
      CAPTURE(host::name(isa));
      for (std::size_t offset = 0; offset <= max_offset; ++offset) {
        CAPTURE(offset);
        for (const std::size_t numel :
             {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 63, 65, 127, 256, 259, 1025, 1063}) {
          CAPTURE(numel);
          CHECK(wrong_at(op, {1, isa, {}}, operands, want, numel, offset) == 0);
        }
      }
    }
  }
}

TEST_CASE("positions: several blocks and threads are the bits of their pieces") {
  constexpr std::size_t tiles = 40;  // 44,000 elements, more than two blocks of work sharing
  for (const Op& op : ops()) {
    std::vector<Bytes> pieces;
    for (std::size_t k = 0; k < op.types.size(); ++k) {
      const Bytes one = pool(op.types[k], k);
      pieces.emplace_back();
      for (std::size_t tile = 0; tile < tiles; ++tile)
        pieces[k].insert(pieces[k].end(), one.begin(), one.end());
    }
    std::vector<Bytes> whole = pieces;
    Call all{{3, Isa::best, {}}, {}, tiles * pool_numel, 0};
    for (Bytes& bytes : whole) all.at.push_back(bytes.data());
    op.run(all);
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      Call call{{1, Isa::best, {}}, {}, pool_numel, tile * pool_numel};
      for (std::size_t k = 0; k < pieces.size(); ++k) {
        call.at.push_back(pieces[k].data() + call.index * size_of(op.types[k]));
      }
      op.run(call);
    }
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < pieces.size(); ++k) {
      for (std::size_t at = 0; at < pieces[k].size(); at += size_of(op.types[k])) {
        if (!same(pieces[k].data() + at, whole[k].data() + at, op.types[k])) ++wrong;
      }
    }
    CAPTURE(op.name);
    CHECK(wrong == 0);
  }
}

TEST_CASE("positions: the norm forms are sums of their single elements, at every offset") {
  const Bytes bytes = pool(DType::fp32, 2);
  std::vector<float> values(pool_numel);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  for (const std::size_t numel : {0, 1, 3, 15, 16, 17, 33, 65, 1023, 1024, 1025, 1063}) {
    for (std::size_t offset = 0; offset <= max_offset; ++offset) {
      const Span<const float> piece = Span<const float>(values).subspan(offset, numel);
      NormLimbs squares, magnitudes;
      std::uint32_t amax = 0;
      for (const float& value : piece) {
        host::grad_norm_exact_accumulate({1, Isa::x86_64, {}}, {&value, 1}, squares);
        host::grad_abs_accumulate({1, Isa::x86_64, {}}, {&value, 1}, magnitudes);
        host::grad_max_accumulate({1, Isa::x86_64, {}}, {&value, 1}, amax);
      }
      host::grad_norm_normalise(squares);
      host::grad_norm_normalise(magnitudes);
      for (const Isa isa : host::supported_isas()) {
        NormLimbs got_squares, got_magnitudes;
        std::uint32_t got_amax = 0;
        host::grad_norm_exact_accumulate({1, isa, {}}, piece, got_squares);
        host::grad_abs_accumulate({1, isa, {}}, piece, got_magnitudes);
        host::grad_max_accumulate({1, isa, {}}, piece, got_amax);
        host::grad_norm_normalise(got_squares);
        host::grad_norm_normalise(got_magnitudes);
        CHECK(got_squares == squares);
        CHECK(got_magnitudes == magnitudes);
        CHECK(got_amax == amax);
      }
    }
  }
}
