// Single operations: fills and sweeps, detected errors, and verdicts.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "common/base/error.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/ops/op_suite.hpp"

namespace op_case_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// Runs operation `name` with another function in place of its host implementation.
Result with_implementation(const std::string& name, Fill fill, const OpFunction& implementation) {
  Op op = *find_op(name);
  op.host = implementation;
  return run_op_cases({{&op, &host_candidate(Isa::x86_64), fill}}, {}).front();
}

/// The host implementation, followed by an edit.
OpFunction and_then(const std::string& name, const std::function<void(OpCall&)>& harm) {
  const OpFunction host = find_op(name)->host;
  return [host, harm](OpCall& call) {
    host(call);
    harm(call);
  };
}

void flip_bit(float& value) {
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U);
}

/// Elements [first, first + numel) as words, so that NaN can be compared.
std::vector<std::uint32_t> words_of(Span<const float> values, std::size_t first,
                                    std::size_t numel) {
  std::vector<std::uint32_t> words(numel);
  std::memcpy(words.data(), values.data() + first, numel * sizeof(float));
  return words;
}

/// The folder of an implementation without its topic folder, which is the same for all of them.
std::string layer_of(const std::string& file) {
  const std::string folder = file.substr(0, file.rfind('/'));
  for (const char* topic : {"/formats", "/gradients", "/update", "/layers"}) {
    if (folder.ends_with(topic)) return folder.substr(0, folder.rfind('/'));
  }
  return folder;
}

}  // namespace

TEST_CASE("operations: every function type has one, with a doc block and implementations") {
  std::set<std::string> types;
  for (const ContractHeader& header : contract_headers()) {
    for (std::size_t at = header.content.find("\nusing "); at != std::string::npos;
         at = header.content.find("\nusing ", at + 1)) {
      const std::string type =
          header.content.substr(at + 7, header.content.find(' ', at + 7) - at - 7);
      if (type.size() > 2 && type.substr(type.size() - 2) == "Fn") types.insert(type);
    }
  }
  CHECK(types.size() == 112);
  // A factory: its optimizer has state and communicates; lbfgs_test.cpp compares both
  // implementations step by step.
  CHECK(types.erase("MakeLbfgsFn") == 1);
  std::set<std::string> covered;
  for (const Op& op : all_ops()) {
    CAPTURE(op.name);
    if (op.name.rfind("fused_", 0) == 0) {  // its result is the result of its phases (R17)
      CHECK(op.type.empty());
      continue;
    }
    CHECK(types.count(op.type) == 1);
    CHECK(covered.insert(op.type).second);
    CHECK(doc_block(op.type).size() >= 2);
    std::set<std::string> layers;
    for (const ImplementationFile& implementation : implementation_files()) {
      const bool is_test = implementation.file.starts_with("tests/");
      if (implementation.function == op.name && !is_test)
        layers.insert(layer_of(implementation.file));
    }
    // The mean of the losses is in the folder of L-BFGS, which uses it.
    const bool is_mean = op.name == "mean_loss";
    std::set<std::string> expected = {is_mean ? "reference/lbfgs" : "reference"};
    if (op.host) expected.insert(is_mean ? "cuda/lbfgs" : "cuda/host");
    if (op.device) expected.insert("cuda/device/kernels");
    CHECK(layers == expected);
  }
  CHECK(covered == types);
}

TEST_CASE("operation cases: ids") {
  for (const OpCaseSpec& spec : op_cases("op/*")) {
    const std::vector<OpCaseSpec> again = op_cases(spec.id());
    REQUIRE(again.size() == 1);
    CHECK(again.front().id() == spec.id());
  }
  CHECK(op_cases("op/clip/*").size() == op_cases("op/clip").size());
  CHECK(op_cases("clip").size() == op_cases("op/clip").size());
  CHECK(op_cases("op/clip").front().op->name == "clip");
  CHECK(op_cases("op/clip").back().op->name == "clip");  // not clip_coef
  CHECK(op_cases("op").size() == op_cases("op/*").size());
  CHECK(op_cases("op/*/fill:no-such").empty());
  CHECK_THROWS_AS(op_cases("op/clp"), Error);
  CHECK_THROWS_AS(op_cases("op/clp/host/x86-64/fill:wide"), Error);
  CHECK_THROWS_AS(op_cases("op/clip/hots/x86-64/fill:wide"), Error);
  CHECK_THROWS_AS(op_cases("op/clip/host/x86-65/fill:wide"), Error);
  CHECK_THROWS_AS(op_cases("op/clip/host/x86-64/fill:wade"), Error);
  CHECK_THROWS_AS(op_cases("op/maximal_nodes/device/cuda/fill:sweep"), Error);  // there is none
  CHECK(op_suite().means("adamw_update"));
  CHECK_FALSE(op_suite().means("byte_gpt"));
}

TEST_CASE("sweep: has every size at which loops change") {
  for (const char* name : {"clip", "widen_bf16", "grad_sum"}) {
    const Op& op = *find_op(name);
    std::set<std::int64_t> sizes;
    std::set<int> offsets;
    std::set<int> variants;
    std::set<int> threads;
    std::set<std::uint64_t> starts;
    for (const CallShape& shape : sweep(op, op.fills.front(), 1)) {
      sizes.insert(shape.numel);
      offsets.insert(shape.offset);
      variants.insert(shape.variant);
      threads.insert(shape.num_threads);
    }
    for (const std::int64_t size :
         {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1023, 1024, 1025, 4095, 4096, 4097}) {
      CHECK_MESSAGE(sizes.count(size) == 1, name, " ", size);
    }
    CHECK(*sizes.rbegin() == op.largest);
    CHECK(offsets.size() == 3);
    CHECK(variants.size() == op.variants.size());
    CHECK(threads.size() == 2);
  }
}

TEST_CASE("fills: an element depends on its index, not on size, offset or threads") {
  const Op& op = *find_op("adamw_update");
  for (const Fill fill : op.fills) {
    const OpCall whole(op, {fill, 64, 0, 0, 1, 5, 100});
    const OpCall part(op, {fill, 9, 2, 3, 2, 5, 117});
    const OpCall other_seed(op, {fill, 64, 0, 0, 1, 6, 100});
    bool differs = false;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const Span<float> a = whole.get<float>(k);
      const Span<float> b = part.get<float>(k);
      CHECK(words_of(a, 17, 9) == words_of(b, 0, 9));
      differs = differs || words_of(a, 0, 64) != words_of(other_seed.get<float>(k), 0, 64);
    }
    CHECK(differs == (fill != Fill::zero));
  }
}

TEST_CASE("fills: values are those that the names state") {
  const Op& op = *find_op("clip");
  constexpr std::int64_t numel = 4096;
  const auto values = [&](Fill fill) { return OpCall(op, {fill, numel, 0, 0, 1, 1, 0}); };
  const OpCall exact = values(Fill::exact_sum);
  for (const float x : exact.in<float>(0)) {
    CHECK((x >= -32 && x <= 32 && x == static_cast<float>(static_cast<int>(x))));
  }
  int ties = 0;
  const OpCall tie_call = values(Fill::ties);
  for (std::size_t i = 0; i < numel; i += 4) {
    const std::uint32_t low = std::bit_cast<std::uint32_t>(tie_call.in<float>(0)[i]) & 0xFFFFU;
    CHECK((low == 0x7FFF || low == 0x8000 || low == 0x8001));
    ties += low == 0x8000 ? 1 : 0;
  }
  CHECK(ties > 200);
  bool positive_zero = false;
  bool negative_zero = false;
  bool infinite = false;
  bool nan = false;
  bool large = false;
  bool small = false;
  const OpCall special_call = values(Fill::special);
  for (const float x : special_call.in<float>(0)) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    positive_zero = positive_zero || bits == 0;
    negative_zero = negative_zero || bits == 0x80000000U;
    infinite = infinite || (bits & 0x7FFFFFFFU) == 0x7F800000U;
    nan = nan || x != x;
    large = large || x == 1e20F;
    small = small || x == 1e-25F;
  }
  CHECK((positive_zero && negative_zero && infinite && nan && large && small));
  int subnormal = 0;
  const OpCall subnormal_call = values(Fill::subnormal);
  for (const float x : subnormal_call.in<float>(0)) {
    subnormal += (std::bit_cast<std::uint32_t>(x) & 0x7F800000U) == 0 ? 1 : 0;
  }
  CHECK(subnormal > numel / 8);
  const OpCall zero_call = values(Fill::zero);
  for (const float x : zero_call.in<float>(0)) CHECK(std::bit_cast<std::uint32_t>(x) == 0);
  // Every pattern of a narrow format.
  const Op& widen = *find_op("widen_bf16");
  const OpCall patterns(widen, {Fill::patterns, widen.largest, 0, 0, 1, 1, 12345});
  std::vector<bool> seen(65536, false);
  for (const bf16 x : patterns.in<bf16>(0)) seen[x.bits] = true;
  CHECK(std::count(seen.begin(), seen.end(), true) == 65536);
}

TEST_CASE("op judge: a wrong last element, bit, NaN or sign of zero is reported with its place") {
  const auto last = and_then("clip", [](OpCall& call) {
    if (call.numel() == 1025) flip_bit(call.get<float>(1)[1024]);
  });
  const Result result = with_implementation("clip", Fill::training, last);
  CHECK(result.status == Status::fail);
  CHECK(result.differing == 12);  // four variants, three offsets
  REQUIRE(result.divergence);
  CHECK(result.divergence->buffer == "grad");
  CHECK(result.divergence->shard_index == 1024);
  CHECK(result.reason == "grad[1024] differs from the reference");
  CHECK(result.divergence->call.find("numel 1025, offset 0, variant coef 0.37, threads 1") == 0);
  REQUIRE(result.divergence->inputs.size() == 1);
  CHECK(result.divergence->inputs.front().first == "unscaled_grad");
  CHECK(result.ulps.counts[1] == 12);
  CHECK(result.ulps.sign_or_nan == 0);

  const auto nan = and_then("clip", [](OpCall& call) {
    if (call.numel() == 3) call.get<float>(1)[1] = std::numeric_limits<float>::quiet_NaN();
  });
  CHECK(with_implementation("clip", Fill::training, nan).ulps.sign_or_nan == 12);
  const auto sign = and_then("clip", [](OpCall& call) {
    if (call.numel() == 3 && call.variant() == 2) call.get<float>(1)[1] = -call.get<float>(1)[1];
  });
  const Result zero = with_implementation("clip", Fill::exact_sum, sign);
  CHECK(zero.status == Status::fail);
  CHECK(zero.ulps.sign_or_nan == 3);
}

TEST_CASE("op judge: writes outside the outputs are reported") {
  const auto behind =
      and_then("clip", [](OpCall& call) { call.get<float>(1).data()[call.numel()] = 0; });
  CHECK(with_implementation("clip", Fill::training, behind).reason ==
        "grad was written outside its bounds");
  const auto before = and_then("clip", [](OpCall& call) {
    if (call.shape().offset != 0) call.get<float>(1).data()[-1] = 0;
  });
  CHECK(with_implementation("clip", Fill::training, before).reason ==
        "grad was written outside its bounds");
  const auto far_behind = and_then("clip", [](OpCall& call) {  // the red zone, after the poison
    call.get<float>(1).data()[call.numel() + 18] = 0;
  });
  CHECK(with_implementation("clip", Fill::training, far_behind).status == Status::fail);
  const auto nothing = and_then("clip", [](OpCall& call) {  // only a call without elements
    if (call.numel() == 0) call.get<float>(1).data()[0] = 0;
  });
  const Result empty = with_implementation("clip", Fill::training, nothing);
  CHECK(empty.status == Status::fail);
  CHECK(empty.divergence->call.rfind("numel 0,", 0) == 0);
  const auto input = and_then("clip", [](OpCall& call) {
    if (call.numel() == 16) flip_bit(call.get<float>(0)[7]);
  });
  CHECK(with_implementation("clip", Fill::training, input).reason ==
        "the input unscaled_grad was edited");
}

TEST_CASE("op judge: an unwritten output fails") {
  const auto idle = [](OpCall&) {};
  CHECK(with_implementation("clip", Fill::training, idle).status == Status::fail);
  CHECK(with_implementation("adamw_update", Fill::training, idle).status == Status::fail);
  CHECK(with_implementation("cast_to_bf16", Fill::training, idle).status == Status::fail);
}

TEST_CASE("op judge: a throwing implementation is an error, an unavailable one is skipped") {
  const auto throws = [](OpCall&) { throw std::runtime_error("broken"); };
  CHECK(with_implementation("clip", Fill::training, throws).status == Status::error);
  const auto refuses = [](OpCall&) { fail(ErrorCode::invalid_argument, "no", "no", "no"); };
  CHECK(with_implementation("clip", Fill::training, refuses).status == Status::error);
  const auto absent = [](OpCall&) { fail(ErrorCode::unavailable, "no", "no", "no"); };
  CHECK(with_implementation("clip", Fill::training, absent).status == Status::skipped);
}

TEST_CASE("op judge: the p-norm must be within its bound, above and below") {
  const auto scaled = [](double factor) {
    return and_then("grad_norm_p", [factor](OpCall& call) { call.get<double>(1)[0] *= factor; });
  };
  CHECK(with_implementation("grad_norm_p", Fill::training, find_op("grad_norm_p")->host).status ==
        Status::pass);
  CHECK(with_implementation("grad_norm_p", Fill::training, scaled(1 + 0x1p-52)).status ==
        Status::pass);
  CHECK(with_implementation("grad_norm_p", Fill::training, scaled(1 + 0x1p-44)).status ==
        Status::fail);
  CHECK(with_implementation("grad_norm_p", Fill::training, scaled(1 - 0x1p-44)).status ==
        Status::fail);
  CHECK(with_implementation("grad_norm_p", Fill::training,
                            scaled(std::numeric_limits<double>::quiet_NaN()))
            .status == Status::fail);
  const auto finite = [](OpCall& call) { call.get<double>(1)[0] = 1; };
  CHECK(with_implementation("grad_norm_p", Fill::special, finite).status == Status::fail);
}

TEST_CASE("op judge: the first difference is the first in the order of data, not of operands") {
  const auto wrong_moment = [](OpCall& call) {  // and so a wrong master, the first output
    for (float& value : call.get<float>(2)) value += 0x1p-10F;
    find_op("adamw_update")->host(call);
  };
  const Result result = with_implementation("adamw_update", Fill::training, wrong_moment);
  CHECK(result.status == Status::fail);
  REQUIRE(result.divergence);
  CHECK(result.divergence->buffer == "exp_avg");
  const auto wrong_master = [](OpCall& call) {
    find_op("adamw_update")->host(call);
    for (float& value : call.get<float>(1)) value += 1;
  };
  const Result other = with_implementation("adamw_update", Fill::training, wrong_master);
  REQUIRE(other.divergence);
  CHECK(other.divergence->buffer == "master");
}

TEST_CASE("op judge: zeros are a control that passes, and is never mistrusted") {
  CHECK(with_implementation("adamw_update", Fill::zero, find_op("adamw_update")->host).status ==
        Status::pass);
  const auto one = [](OpCall& call) {
    find_op("adamw_update")->host(call);
    if (call.numel() > 0) call.get<float>(1)[0] = 1;
  };
  CHECK(with_implementation("adamw_update", Fill::zero, one).status == Status::fail);
  CHECK(with_implementation("adamw_update", Fill::training, find_op("adamw_update")->host).status ==
        Status::pass);
}

TEST_CASE("op judge: an unavailable implementation is skipped") {
  Op op = *find_op("clip");
  op.device = [](OpCall&) { fail(ErrorCode::unavailable, "no device", "none", "none"); };
  const Result result = run_op_cases({{&op, &device_candidate(), Fill::training}}, {}).front();
  CHECK(result.status == Status::skipped);
  CHECK(result.compared == 0);
}

TEST_CASE("UlpHistogram: distances, signs and NaNs") {
  const auto bits = [](std::vector<std::uint32_t> words) { return words; };
  std::vector<std::uint32_t> a = bits({0x3F800000, 0x3F800000, 0x3F800000, 0x3F800000, 0x3F800000,
                                       0, 0x7FC00000, 0x7FC00000, 0xBF800000});
  std::vector<std::uint32_t> b = bits({0x3F800000, 0x3F7FFFFF, 0x3F800002, 0x3F80000F, 0x3F800010,
                                       0x80000000, 0x3F800000, 0xFFC00001, 0xBF800003});
  UlpHistogram h;
  h.add({a.data(), DType::fp32, 9}, {b.data(), DType::fp32, 9});
  CHECK(h.counts == std::array<std::int64_t, 5>{2, 1, 1, 2, 1});
  CHECK(h.sign_or_nan == 2);
  CHECK(h.largest == 16);
  UlpHistogram integers;
  integers.add({a.data(), DType::u32, 9}, {b.data(), DType::u32, 9});
  CHECK(integers.counts == std::array<std::int64_t, 5>{});
}

TEST_CASE("op judge: a failure has a hint about the wrong results") {
  const auto hint_of = [](const std::string& name, const OpFunction& implementation) {
    const Result result = with_implementation(name, Fill::training, implementation);
    REQUIRE(result.divergence.has_value());
    CAPTURE(result.divergence->hint);
    return result.divergence->hint;
  };
  const auto says = [](const std::string& hint, const std::string& part) {
    return hint.find(part) != std::string::npos;
  };
  CHECK(says(hint_of("clip",
                     [](OpCall& call) {
                       std::copy_n(call.in<float>(0).data(), call.get<float>(1).size(),
                                   call.get<float>(1).data());
                     }),
             "they hold the values of the input unscaled_grad"));
  CHECK(says(hint_of("clip", [](OpCall&) {}), "their previous values: not written"));
  CHECK(says(hint_of("adamw_update", and_then("adamw_update",
                                              [](OpCall& call) {
                                                for (float& x : call.get<float>(2)) x = x * 0.9F;
                                              })),
             "multiplied by 0.9, beta1"));
}

}  // namespace op_case_test
