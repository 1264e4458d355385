#pragma once
// The safetensors format: reading what anybody wrote, writing what anybody can read.

#include "verification/io/safetensors_header.hpp"
#include "verification/io/safetensors_reader.hpp"
#include "verification/io/safetensors_types.hpp"
#include "verification/io/safetensors_writer.hpp"
