// Norms (R12): chunk sums in their fixed order, and the sums of the other forms, which are exact or integer.

#include "cuda/host/simd/chunk_sums.hpp"
#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

/// fp32 values in memory.
struct Stored {
  const float* source;

  inline void values(std::int64_t i, int count, float* found) const {
    prefetch_ahead(source + i);
    prefetch_ahead(source + i + line);
    for (int l = 0; l < count; ++l) found[l] = source[i + l];
  }
};

/// The same times inv_scale.
struct Scaled {
  float inv_scale;
  const float* source;

  inline void values(std::int64_t i, int count, float* found) const {
    prefetch_ahead(source + i);
    prefetch_ahead(source + i + line);
    for (int l = 0; l < count; ++l) found[l] = source[i + l] * inv_scale;
  }
};

/// The same from a 16-bit type.
template <DType dtype>
struct ScaledHalf {
  float inv_scale;
  const std::uint16_t* source;

  inline void values(std::int64_t i, int count, float* found) const {
    prefetch_ahead(source + i);
    if constexpr (dtype == DType::bf16) {
      for (int l = 0; l < count; ++l)
        found[l] = float_of(std::uint32_t{source[i + l]} << 16) * inv_scale;
    } else {
      from_fp16(source + i, found, count);
      for (int l = 0; l < count; ++l) found[l] = found[l] * inv_scale;
    }
  }
};

// Magnitudes are below 2^31, so they compare as signed integers, which the baseline has instructions for.
inline std::int32_t magnitude(float value) {
  return static_cast<std::int32_t>(bits_of(value) & 0x7FFFFFFFU);
}

/// One element of split_sums. Each shifter pushes the low bits of `rest` out, so `part` is its head
/// in multiples of the shifter's last place; the remainder goes on to the next level, without
/// rounding.
template <bool square, int levels>
inline void split_element(float value, const double* shifters, double* const* sums, int lane) {
  const double wide = static_cast<double>(value);
  double rest = square ? wide * wide : __builtin_fabs(wide);
  for (int level = 0; level + 1 < levels; ++level) {
    const double part = (rest + shifters[level]) - shifters[level];
    sums[level][lane] = sums[level][lane] + part;
    rest = rest - part;
  }
  sums[levels - 1][lane] = sums[levels - 1][lane] + rest;
}

template <bool square, int levels>
inline void split_sums(float factor, const float* source, std::int64_t numel,
                       const double* shifters, double* sums) {
  const double shift0 = levels > 1 ? shifters[0] : 0.0;
  const double shift1 = levels > 2 ? shifters[1] : 0.0;
  const double shift[2] = {shift0, shift1};
  double lane0[line] = {}, lane1[line] = {}, lane2[line] = {};
  double* const lane[3] = {lane0, lane1, lane2};
  const std::int64_t whole = numel / line * line;
  for (std::int64_t i = 0; i < whole; i += line) {
#pragma omp simd
    for (int l = 0; l < line; ++l)
      split_element<square, levels>(source[i + l] * factor, shift, lane, l);
  }
  for (std::int64_t i = whole; i < numel; ++i) {
    split_element<square, levels>(source[i] * factor, shift, lane, static_cast<int>(i - whole));
  }
  for (int level = 0; level < levels; ++level) {
    double total = 0;
    for (int l = 0; l < line; ++l) total += lane[level][l];
    sums[level] = total;
  }
}

/// Any number of levels: the sums no longer fit the registers. The levels of one value form a
/// dependency chain, so many values are processed at a time.
template <bool square>
inline void split_many(float factor, const float* source, std::int64_t numel, int levels,
                       const double* shifters, double* sums) {
  constexpr int group = 64;
  double lane[most_split_levels][group] = {};
  for (std::int64_t begin = 0; begin < numel; begin += group) {
    const std::int64_t count = numel - begin < group ? numel - begin : group;
    double rest[group] = {};
#pragma omp simd
    for (std::int64_t l = 0; l < count; ++l) {
      const double wide = static_cast<double>(source[begin + l] * factor);
      rest[l] = square ? wide * wide : __builtin_fabs(wide);
    }
    for (int level = 0; level + 1 < levels; ++level) {
      const double shifter = shifters[level];
#pragma omp simd
      for (int l = 0; l < group; ++l) {
        const double part = (rest[l] + shifter) - shifter;
        lane[level][l] = lane[level][l] + part;
        rest[l] = rest[l] - part;
      }
    }
    for (int l = 0; l < group; ++l) lane[levels - 1][l] = lane[levels - 1][l] + rest[l];
  }
  for (int level = 0; level < levels; ++level) {
    for (int width = group / 2; width >= 1; width /= 2) {
      for (int l = 0; l < width; ++l) lane[level][l] += lane[level][l + width];
    }
    sums[level] = lane[level][0];
  }
}

template <bool square>
inline void split_any(float factor, const float* source, std::int64_t numel, int levels,
                      const double* shifters, double* sums) {
  if (levels == 1) return split_sums<square, 1>(factor, source, numel, shifters, sums);
  if (levels == 2) return split_sums<square, 2>(factor, source, numel, shifters, sums);
  if (levels == 3) return split_sums<square, 3>(factor, source, numel, shifters, sums);
  split_many<square>(factor, source, numel, levels, shifters, sums);
}

}  // namespace

void chunk_sums(const float* source, std::int64_t numel, double* sums) {
  all_chunks(Stored{source}, numel, sums);
}

std::uint32_t unscale_chunk_sums(float inv_scale, const GradStretch& source, std::int64_t numel,
                                 double* sums) {
  if (source.dtype == DType::fp32) {
    return all_chunks(Scaled{inv_scale, static_cast<const float*>(source.data)}, numel, sums);
  }
  const auto* half = static_cast<const std::uint16_t*>(source.data);
  if (source.dtype == DType::bf16)
    return all_chunks(ScaledHalf<DType::bf16>{inv_scale, half}, numel, sums);
  return all_chunks(ScaledHalf<DType::fp16>{inv_scale, half}, numel, sums);
}

std::uint32_t largest_magnitude(float factor, const float* source, std::int64_t numel) {
  std::int32_t most[line] = {};
  const std::int64_t whole = numel / line * line;
  for (std::int64_t i = 0; i < whole; i += line) {
    prefetch_ahead(source + i);
#pragma omp simd
    for (int l = 0; l < line; ++l) {
      const std::int32_t here = magnitude(source[i + l] * factor);
      most[l] = here > most[l] ? here : most[l];
    }
  }
  for (std::int64_t i = whole; i < numel; ++i) {
    const std::int32_t here = magnitude(source[i] * factor);
    most[0] = here > most[0] ? here : most[0];
  }
  for (int l = 1; l < line; ++l) most[0] = most[l] > most[0] ? most[l] : most[0];
  return static_cast<std::uint32_t>(most[0]);
}

void magnitude_range(float factor, const float* source, std::int64_t numel, std::uint32_t* smallest,
                     std::uint32_t* largest) {
  std::int32_t most[line] = {}, least[line];
  for (std::int32_t& value : least) value = 0x7FFFFFFF;
  const std::int64_t whole = numel / line * line;
  const auto take = [&](float value, int l) {
    const std::int32_t here = magnitude(value);
    const std::int32_t there = here == 0 ? 0x7FFFFFFF : here;
    most[l] = here > most[l] ? here : most[l];
    least[l] = there < least[l] ? there : least[l];
  };
  for (std::int64_t i = 0; i < whole; i += line) {
    prefetch_ahead(source + i);
#pragma omp simd
    for (int l = 0; l < line; ++l) take(source[i + l] * factor, l);
  }
  for (std::int64_t i = whole; i < numel; ++i) take(source[i] * factor, 0);
  for (int l = 1; l < line; ++l) {
    most[0] = most[l] > most[0] ? most[l] : most[0];
    least[0] = least[l] < least[0] ? least[l] : least[0];
  }
  *smallest = static_cast<std::uint32_t>(least[0]);
  *largest = static_cast<std::uint32_t>(most[0]);
}

MagnitudeCounts count_magnitudes(const float* source, std::int64_t numel) {
  std::int32_t most[line] = {}, nonfinite[line] = {}, zeros[line] = {};
  const std::int64_t whole = numel / line * line;
  const auto take = [&](float value, int l) {
    const std::int32_t here = magnitude(value);
    most[l] = here > most[l] ? here : most[l];
    nonfinite[l] += here >= 0x7F800000 ? 1 : 0;
    zeros[l] += here == 0 ? 1 : 0;
  };
  for (std::int64_t i = 0; i < whole; i += line) {
    prefetch_ahead(source + i);
#pragma omp simd
    for (int l = 0; l < line; ++l) take(source[i + l], l);
  }
  for (std::int64_t i = whole; i < numel; ++i) take(source[i], 0);
  for (int l = 1; l < line; ++l) {
    most[0] = most[l] > most[0] ? most[l] : most[0];
    nonfinite[0] += nonfinite[l];
    zeros[0] += zeros[l];
  }
  const auto amax = static_cast<std::uint32_t>(most[0]);
  return {amax > 0x7F800000U ? 0x7FFFFFFFU : amax, static_cast<std::uint32_t>(nonfinite[0]),
          static_cast<std::uint32_t>(zeros[0])};
}

void split_squares(float factor, const float* source, std::int64_t numel, int levels,
                   const double* shifters, double* sums) {
  split_any<true>(factor, source, numel, levels, shifters, sums);
}

void split_magnitudes(float factor, const float* source, std::int64_t numel, int levels,
                      const double* shifters, double* sums) {
  split_any<false>(factor, source, numel, levels, shifters, sums);
}

double power_sum(double largest, int power, const float* source, std::int64_t numel) {
  constexpr std::int64_t block = 256;
  double lane[line] = {};
  for (std::int64_t begin = 0; begin < numel; begin += block) {
    const std::int64_t count = numel - begin < block ? numel - begin : block;
    double base[block], result[block] = {};
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      base[i] = __builtin_fabs(static_cast<double>(source[begin + i])) / largest;
      result[i] = 1.0;
    }
    for (int rest = power; rest != 0; rest >>= 1) {
      if ((rest & 1) != 0) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) result[i] = result[i] * base[i];
      }
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) base[i] = base[i] * base[i];
    }
    for (std::int64_t i = 0; i < block; i += line) {  // values from count on are +0
      for (int l = 0; l < line; ++l) lane[l] = lane[l] + result[i + l];
    }
  }
  double total = 0;
  for (const double sum : lane) total += sum;
  return total;
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
