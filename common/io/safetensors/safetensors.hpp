#pragma once
// The safetensors format: reads files of any writer, writes files for any reader.

#include "common/io/safetensors/safetensors_header.hpp"
#include "common/io/safetensors/safetensors_reader.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "common/io/safetensors/safetensors_writer.hpp"
