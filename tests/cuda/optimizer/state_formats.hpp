#pragma once
// State and master that are not stored in fp32 (R25), as tests combine them.

#include "common/step/state_format.hpp"

namespace zeroproof::tests {

/// Every format of a buffer and of the master, no two equal at once.
inline constexpr StateFormats state_formats[] = {
    {StateFormat::bf16, StateFormat::fp32, MasterFormat::fp32},
    {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32},
    {StateFormat::fp16, StateFormat::e4m3, MasterFormat::bf16},
    {StateFormat::fp32, StateFormat::bf16, MasterFormat::bf16},
};

}  // namespace zeroproof::tests
