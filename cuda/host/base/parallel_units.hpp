#pragma once
// Work sharing over units of several elements: rows or tiles of a matrix.

#include "cuda/host/base/parallel_blocks.hpp"

namespace zeroproof::cuda::host {

/// Calls body(begin, end) for runs of units that cover [0, units), each of about block_numel
/// elements but at least one unit. unit_numel: elements of a unit; it only decides how many units
/// form a run.
template <class Body>
void parallel_units(const Exec& exec, std::int64_t units, std::int64_t unit_numel,
                    const Body& body) {
  const std::int64_t run =
      std::max<std::int64_t>(block_numel / std::max<std::int64_t>(unit_numel, 1), 1);
  const std::int64_t runs = (units + run - 1) / run;
  parallel_blocks(exec, runs * block_numel, [&](std::int64_t begin, std::int64_t) {
    const std::int64_t first = begin / block_numel * run;
    body(first, std::min(first + run, units));
  });
}

/// Calls body(block, first_row, end_row, first_column, end_column) for tiles that cover a matrix;
/// the rows belong to one of the 8 blocks of R18, and no two tiles have the same block and column.
template <class Body>
void parallel_column_tiles(const Exec& exec, std::int64_t rows, std::int64_t columns,
                           const Body& body) {
  constexpr std::int64_t tile = 512;  // their sums stay in the first-level cache
  const std::int64_t tiles = (columns + tile - 1) / tile;
  parallel_units(exec, 8 * tiles, (rows / 8 + 1) * std::min(columns, tile),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t unit = begin; unit < end; ++unit) {
                     const std::int64_t block = unit / tiles;
                     const std::int64_t first = unit % tiles * tile;
                     body(block, rows * block / 8, rows * (block + 1) / 8, first,
                          std::min(first + tile, columns));
                   }
                 });
}

}  // namespace zeroproof::cuda::host
