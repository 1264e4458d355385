#pragma once

#include <cstdint>

#include "common/layout/block_grid.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// Block indices of the elements of a part of a tensor.
struct PartBlocks {
  std::int64_t columns, block_rows, block_columns, across, first;

  PartBlocks(const BlockGrid& grid, std::int64_t first_element)
      : columns(grid.columns),
        block_rows(grid.block_rows),
        block_columns(grid.block_columns),
        across(grid.blocks_across()),
        first(first_element) {}

  /// Block of element i of the part.
  ZP_HOST_DEVICE std::int64_t of(std::int64_t i) const {
    const std::int64_t row = (first + i) / columns, column = (first + i) - row * columns;
    return row / block_rows * across + column / block_columns;
  }
};

}  // namespace zeroproof::cuda::device
