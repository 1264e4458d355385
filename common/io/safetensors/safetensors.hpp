#pragma once
// The safetensors format: reading what anybody wrote, writing what anybody can read.

#include "common/io/safetensors/safetensors_header.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "common/io/safetensors/safetensors_writer.hpp"
