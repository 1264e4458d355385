// A master split into a bf16 parameter and its remainder, and joined again, by both rules.

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"
#include "verification/ops/one_implementation.hpp"

namespace zeroproof::verification {
namespace {

constexpr SplitRule split_rules[] = {SplitRule::nearest, SplitRule::transformer_engine};

OpFunction run_split(SplitMasterFn* implementation) {
  return [implementation](OpCall& call) {
    implementation(call.exec, split_rules[call.variant()], call.in<float>(0), call.get<bf16>(1),
                   call.get<std::uint16_t>(2));
  };
}

OpFunction run_join(JoinMasterFn* implementation) {
  return [implementation](OpCall& call) {
    implementation(call.exec, split_rules[call.variant()], call.in<bf16>(0),
                   call.in<std::uint16_t>(1), call.get<float>(2));
  };
}

/// Pairs that a split can make and pairs that it cannot; every fourth remainder is at an end or in
/// the middle of its range.
void draw_split_pairs(OpCall& call) {
  constexpr std::uint16_t corners[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const PhiloxBlock w = call.words(0, i);
    const auto at = static_cast<std::size_t>(i);
    call.get<bf16>(0)[at] = {static_cast<std::uint16_t>(w[0])};
    call.get<std::uint16_t>(1)[at] =
        w[1] % 4U == 0 ? corners[w[2] % std::size(corners)] : static_cast<std::uint16_t>(w[3]);
  }
}

}  // namespace

OpFunction calls_of_split_master(SplitMasterFn* implementation) {
  return run_split(implementation);
}
OpFunction calls_of_join_master(JoinMasterFn* implementation) { return run_join(implementation); }

std::vector<Op> master_split_ops() {
  Op split;
  split.name = "split_master";
  split.contract = "master_split.hpp";
  split.type = "SplitMasterFn";
  split.phases = {Phase::cast};
  split.variants = {"nearest", "transformer engine"};
  split.operands = {input("master", Content::weight), output("param", DType::bf16),
                    output("remainder", DType::u16)};
  split.fills = number_fills();
  split.fills.push_back(Fill::patterns);
  split.one_result = "it adds integers";
  split.settings = [](const OpCall& call) -> std::vector<OpSetting> {
    return {{"transformer_engine", std::int64_t{call.variant()}}};
  };
  split.reference = run_split(reference::split_master);
  split.host = run_split(cuda::host::split_master);
  split.device = run_split(on_device<cuda::device::split_master>);

  Op join = split;
  join.name = "join_master";
  join.type = "JoinMasterFn";
  join.operands = {input("param", Content::given, DType::bf16),
                   input("remainder", Content::given, DType::u16), output("master")};
  join.fills = {Fill::sweep};
  join.largest = 65549;
  join.generate = draw_split_pairs;
  join.reference = run_join(reference::join_master);
  join.host = run_join(cuda::host::join_master);
  join.device = run_join(on_device<cuda::device::join_master>);
  return {split, join};
}

}  // namespace zeroproof::verification
