#pragma once
// 16-byte accesses: which elements they cover, and the loads and stores.

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

template <class T>
struct alignas(16) Pack {
  T v[16 / sizeof(T)];
};

template <class T>
ZP_HOST_DEVICE inline Pack<T> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}

template <class T>
ZP_HOST_DEVICE inline void store_pack(T* to, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

/// Elements [0, head) and [tail(), numel) are processed one by one, the elements in between as
/// whole packs that are 16-byte aligned in every operand.
struct PackSplit {
  std::int64_t numel;
  std::int64_t head;
  std::int64_t num_packs;
  std::int64_t pack_numel;

  ZP_HOST_DEVICE std::int64_t tail() const { return head + num_packs * pack_numel; }
};

/// The split with the shortest head. If no head aligns all operands, every element is processed
/// alone.
template <class... T>
PackSplit split_packs(std::int64_t numel, std::int64_t pack_numel, const T*... operands) {
  for (std::int64_t head = 0; head < pack_numel && head <= numel; ++head) {
    if (((reinterpret_cast<std::uintptr_t>(operands + head) % 16 == 0) && ...)) {
      return {numel, head, (numel - head) / pack_numel, pack_numel};
    }
  }
  return {numel, numel, 0, pack_numel};
}

}  // namespace zeroproof::cuda::device
