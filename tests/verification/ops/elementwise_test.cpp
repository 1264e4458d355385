// Long streams of inputs through every element-wise operation of every implementation, compared
// with the oracle bit for bit. ZP_ELEMENTS is the number of elements per operation and family.

#include <doctest.h>

#include "common/base/error.hpp"
#include "oracle_fused_operations.hpp"
#include "oracle_stream.hpp"
#include "oracle_update_operations.hpp"

namespace elementwise_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

void stream_all(const std::vector<Operation>& operations, std::int64_t per_family) {
  for (const Operation& op : operations) stream(op, per_family);
}

/// The error code of a call with invalid arguments; -1: no error.
template <class Call>
int refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return static_cast<int>(error.code());
  }
  return -1;
}

}  // namespace

TEST_CASE("op candidates: names and kinds") {
  std::string names;
  for (const Implementation& implementation : all_implementations())
    names += (names.empty() ? "" : ", ") + implementation.name;
  std::printf("elementwise: implementations are %s\n", names.c_str());
  const cuda::device::DeviceInfo& device = cuda::device::device_info();
  if (!device.answers)
    std::printf("elementwise: device implementations not judged here (%s)\n",
                device.detail.c_str());
  for (Isa isa : {Isa::x86_64, Isa::x86_64_v3, Isa::x86_64_v4}) {
    if (cuda::host::isa_supported(isa)) continue;
    std::printf("elementwise: host %s not judged here (this processor lacks it)\n",
                std::string(cuda::host::name(isa)).c_str());
  }
  CHECK(all_implementations().size() >= 2);
}

TEST_CASE("stream: every update rule with all flags") {
  stream_all(update_operations(), stream_length(ordinary_length / 4));
}

TEST_CASE("stream: unscale, clip, clip_value, add") {
  stream_all(simple_operations(), stream_length(ordinary_length));
}

TEST_CASE("stream: fused unscale, clip, adamw, cast") {
  stream_all(fused_operations(), stream_length(ordinary_length / 8));
}

TEST_CASE("slow: stream: every update rule with all flags") {
  stream_all(update_operations(), stream_length(slow_length));
}

TEST_CASE("slow: stream: unscale, clip, clip_value, add") {
  stream_all(simple_operations(), stream_length(slow_length));
}

TEST_CASE("slow: stream: fused unscale, clip, adamw, cast") {
  stream_all(fused_operations(), stream_length(slow_length / 4));
}

TEST_CASE("found_inf: one nonfinite element at any position") {
  const Operation unscale = unscale_operation();
  const std::vector<Implementation> implementations = implementations_for(unscale);
  constexpr int large_scale = 9;  // inv_scale = 2^126
  CHECK(inv_scale_of(large_scale) == 0x1p126F);
  Tally tally;
  std::int64_t elements = 0;
  Workspace expected_space, actual_space;
  // The last two are finite, but the large scale makes them infinite (and their neighbours stay finite): judged
  // after the product.
  for (std::uint32_t bad :
       {0x7FC00000U, 0xFF800001U, 0x7F800000U, 0xFF800000U, 0x40800000U, 0xFF7FFFFFU}) {
    for (std::int64_t numel = 1; numel <= 70; ++numel) {
      for (std::int64_t at = 0; at < numel; ++at) {
        for (int set : {0, large_scale}) {
          const Operands expected = expected_space.prepare(unscale, numel);
          std::ranges::fill_n(static_cast<float*>(expected.in[0]), numel, 0x1.8p-60F);
          static_cast<float*>(expected.in[0])[at] = from_bits(bad);
          const bool found = unscale.judge(set, expected);
          for (const Implementation& implementation : implementations) {
            const Operands actual = actual_space.prepare(unscale, numel);
            copy_inputs(unscale, expected, actual);
            const bool actual_found = unscale.run(implementation, implementation.exec, set, actual);
            tally.compare({&unscale, &implementation, Family::special, 0, set}, expected, actual,
                          found, actual_found);
          }
          elements += numel;
        }
      }
    }
  }
  report(unscale, "found_inf", elements, implementations.size(), tally);
}

TEST_CASE("operations: invalid arguments are refused, and outputs stay unchanged") {
  constexpr int invalid = static_cast<int>(ErrorCode::invalid_argument);
  std::vector<float> three(3, 2.0F), four(4, 2.0F), a(3, 2.0F), b(3, 2.0F), c(3, 2.0F);
  std::vector<bf16> narrow(4, bf16{7});
  const StepScalars s = to_step_scalars(scalars_of(0, oracle_rule_adamw));
  for (const Implementation& t : all_implementations()) {
    CAPTURE(t.name);
    const Exec& e = t.exec;
    for (AdamwUpdateFn* update : {t.adamw_update, t.adam_update}) {
      CHECK(refusal([&] { update(e, {}, s, three, four, a, b, {}); }) == invalid);
      CHECK(refusal([&] { update(e, {}, s, three, a, four, b, {}); }) == invalid);
      CHECK(refusal([&] { update(e, {}, s, three, a, b, four, {}); }) == invalid);
      CHECK(refusal([&] { update(e, {true, false}, s, three, a, b, c, {}); }) == invalid);
      CHECK(refusal([&] { update(e, {true, false}, s, three, a, b, c, four); }) == invalid);
      CHECK(refusal([&] { update(e, {}, s, three, a, b, c, three); }) ==
            invalid);  // not empty without amsgrad
    }
    CHECK(refusal([&] { t.sgd_update(e, {}, s, three, four, {}); }) == invalid);
    CHECK(refusal([&] { t.sgd_update(e, {true, false, false}, s, three, a, four); }) == invalid);
    CHECK(refusal([&] { t.sgd_update(e, {true, false, false}, s, three, a, {}); }) == invalid);
    CHECK(refusal([&] { t.sgd_update(e, {}, s, three, a, b); }) ==
          invalid);  // not empty without momentum
    CHECK(refusal([&] { t.sgd_update(e, {false, true, false}, s, three, a, {}); }) == invalid);
    CHECK(refusal([&] { t.sgd_ema_update(e, {}, s, three, a, four); }) == invalid);
    CHECK(refusal([&] { t.sgd_ema_update(e, {}, s, three, four, a); }) == invalid);
    CHECK(refusal([&] { t.lion_update(e, {}, s, three, a, four); }) == invalid);
    CHECK(refusal([&] { t.lion_update(e, {}, s, three, four, a); }) == invalid);
    CHECK(refusal([&] { t.lamb_update(e, {}, s, 1, three, four, a, b); }) == invalid);
    CHECK(refusal([&] { t.lamb_update(e, {}, s, 1, three, a, four, b); }) == invalid);
    CHECK(refusal([&] { t.lamb_update(e, {}, s, 1, three, a, b, four); }) == invalid);
    TrustNorms norms;
    CHECK(refusal([&] { t.lamb_norms(e, {}, s, three, four, a, b, norms); }) == invalid);
    CHECK(refusal([&] { t.lamb_norms(e, {}, s, three, a, four, b, norms); }) == invalid);
    CHECK(refusal([&] { t.lamb_norms(e, {}, s, three, a, b, four, norms); }) == invalid);
    CHECK(norms == TrustNorms{});
    for (std::uint32_t bits :
         {0U, 0x80000000U, 0xBF800000U, 0x7F800000U, 0xFF800000U, 0x7FC00000U}) {
      CHECK(refusal([&] { t.clip_value(e, from_bits(bits), a); }) == invalid);
    }
    CHECK(refusal([&] { t.stochastic_cast_to_bf16(e, {}, three, narrow); }) == invalid);
    CHECK(refusal([&] { t.cast_to_bf16(e, three, narrow); }) == invalid);
  }
  for (const auto* buffer : {&three, &four, &a, &b, &c}) {
    for (float x : *buffer) CHECK(x == 2.0F);
  }
  for (bf16 x : narrow) CHECK(x.bits == 7);
}

}  // namespace elementwise_test
