#pragma once
// Digests of the self-test, for contract version 2. They change only with the version; the test
// self_test_test prints the lines to insert here.

#include <utility>

namespace zeroproof::verification {

inline constexpr std::pair<const char*, const char*> committed_digests[] = {
    {"float formats", "9397f8ef86d15b6875a7e585ca22f724"},
    {"fp64 functions", "f840dec60387488d85b25488387089c5"},
    {"grids", "1545007af585821ec927462b91c468f5"},
    {"random words", "1a4bd7a01697fe697ca3a0d83182b2fd"},
    {"schedules", "c4a16fa596f356b86244838697c51cc7"},
    {"shards", "8390ed451538bb04c83fa192974053fd"},
    {"tensor parallel cuts", "fff22001decedb853b22acbff10afa8d"},
    {"trajectory byte_gpt_tiny/adamw-groups/fp32", "c29c9460531e2f25480747c6dac89c77"},
    {"trajectory byte_gpt_tiny/adamw-stochastic/bf16", "1259104127f923e98aa11a81d054701e"},
    {"trajectory byte_gpt_tiny/adamw-tokens/fp16", "4fe57755609b48d130062557fd0f03b0"},
    {"trajectory byte_gpt_tiny/adamw/bf16", "0afb083e0976dae0964c48d6644c9723"},
    {"trajectory byte_gpt_tiny/adamw/fp16", "912779950814d8bb35a3a499c1fbbbff"},
    {"trajectory byte_gpt_tiny/fp8-current/e4m3", "060834eac0b2f12bb1a1d3e8ce81543d"},
    {"trajectory byte_gpt_tiny/fp8-delayed/e5m2", "3ce07b0533db8c67c9eb0e4ade546cb4"},
    {"trajectory of grid 2x1x2 stage 3", "25f78a0f0d7c58f8388319fb6f2587d8"},
    {"trajectory of grid 2x2x1 stage 1", "9e3e2f911bf5005dce2128afad53a573"},
    {"trajectory of grid 3x1x1 stage 2", "bb9e63adf4d4d17ecc7b50290add3956"},
    {"warm-ups and rate tables", "85b95307b4396e0626ea05ea7445776e"},
};

}  // namespace zeroproof::verification
