#include "cuda/offload/state_split.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/error.hpp"
#include "cuda/host/formats/state_block_parts.hpp"

namespace zeroproof::cuda {
namespace {

/// A piece that is offloaded up to its element `offloaded`, and resident from that element on.
struct Share {
  Piece piece;
  std::int64_t offloaded = 0;
  bool stays = false;  ///< it is a part of a block: resident, but counted like offloadable elements
};

/// unit: elements that are not split.
std::vector<Share> shares_of(const FlatLayout& layout, const std::vector<Piece>& pieces,
                             std::int64_t unit) {
  std::vector<Share> shares;
  for (const Piece& piece : pieces) {
    if (unit == 1) {
      shares.push_back({piece});
      continue;
    }
    const std::int64_t numel = layout.tensors()[piece.tensor].numel;
    const bool is_last = piece.tensor_begin + piece.numel == numel;
    const host::StateBlockParts parts = host::state_block_parts(piece, piece.tensor_begin, is_last);
    if (parts.head.numel > 0) shares.push_back({parts.head, 0, true});
    if (parts.whole.numel > 0) shares.push_back({parts.whole});
    if (parts.tail.numel > 0) shares.push_back({parts.tail, 0, true});
  }
  return shares;
}

std::int64_t numel_of(const std::vector<Share>& shares) {
  std::int64_t numel = 0;
  for (const Share& share : shares) numel += share.piece.numel;
  return numel;
}

void take_flat(std::vector<Share>& shares, double wanted, std::int64_t unit) {
  auto left = static_cast<std::int64_t>(std::floor(wanted));
  for (Share& share : shares) {
    const std::int64_t taken = std::min(left, share.piece.numel);
    left -= taken;
    if (!share.stays) share.offloaded = taken == share.piece.numel ? taken : taken / unit * unit;
  }
}

void take_tensors(std::vector<Share>& shares, double wanted, const ParamGroups& groups) {
  std::vector<std::size_t> order(shares.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const std::int64_t tensor = shares[i].piece.tensor;
    return std::pair(groups.of(tensor), tensor);
  };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::int64_t taken = 0;
  for (std::size_t i = 0; i < order.size();) {
    if (!(static_cast<double>(taken) < wanted)) return;
    const std::int64_t tensor = shares[order[i]].piece.tensor;
    for (; i < order.size() && shares[order[i]].piece.tensor == tensor; ++i) {
      Share& share = shares[order[i]];
      share.offloaded = share.stays ? 0 : share.piece.numel;
      taken += share.piece.numel;
    }
  }
}

std::int64_t total(const std::vector<FlatRange>& ranges) {
  std::int64_t numel = 0;
  for (const FlatRange& range : ranges) numel += range.numel();
  return numel;
}

}  // namespace

StateSplit::StateSplit(const OptimizerSetup& setup, const std::vector<FlatRange>& ranges)
    : unit_(host::any_state_scales(setup.hyper, setup.state_formats) ? state_block_numel : 1),
      shard_numel_(total(ranges)) {
  std::vector<Share> shares = shares_of(*setup.layout, setup.layout->pieces(ranges), unit_);
  const Offload& offload = setup.offload;
  const double wanted = offload.fraction * static_cast<double>(numel_of(shares));
  offload.order == OffloadOrder::flat ? take_flat(shares, wanted, unit_)
                                      : take_tensors(shares, wanted, setup.groups);
  std::vector<Piece> offloaded, all;
  for (const Share& share : shares) {
    if (share.offloaded > 0) offloaded.push_back(share.piece.part(0, share.offloaded));
    if (share.offloaded < share.piece.numel)
      resident_pieces_.push_back(share.piece.part(share.offloaded, share.piece.numel));
  }
  all = resident_pieces_;
  all.insert(all.end(), offloaded.begin(), offloaded.end());
  std::ranges::sort(all, {}, &Piece::local_begin);
  cut(offloaded, all);
  resident_ = host::PieceLoop(resident_pieces_);
  make_chunks(offload.chunk_numel, offloaded);
}

/// Padding before the first element is offloaded with it, unless this moves the start of a block; a
/// shard that is only padding is resident.
void StateSplit::cut(const std::vector<Piece>& offloaded, const std::vector<Piece>& all) {
  std::size_t next = 0;  // of the offloaded pieces
  std::int64_t begin = 0;
  if (unit_ > 1 && !all.empty()) {
    add_stretch(0, all.front().local_begin, false);
    begin = all.front().local_begin;
  }
  for (std::size_t i = 0; i < std::max<std::size_t>(all.size(), 1); ++i) {
    const bool out = i < all.size() && next < offloaded.size() &&
                     offloaded[next].local_begin == all[i].local_begin;
    if (out) {
      ++next;
      offloaded_numel_ = whole_units(offloaded_numel_);
    }
    const std::int64_t end = i + 1 < all.size() ? all[i + 1].local_begin : shard_numel_;
    add_stretch(begin, end, out);
    begin = end;
  }
  offloaded_numel_ = whole_units(offloaded_numel_);
}

void StateSplit::add_stretch(std::int64_t begin, std::int64_t end, bool offloaded) {
  std::int64_t& part = offloaded ? offloaded_numel_ : resident_numel_;
  Stretch* const last = stretches_.empty() ? nullptr : &stretches_.back();
  if (last != nullptr && last->offloaded == offloaded && last->place + last->numel == part) {
    last->numel += end - begin;
  } else if (end > begin) {
    stretches_.push_back({begin, end - begin, part, offloaded});
  }
  part += end - begin;
}

void StateSplit::make_chunks(std::int64_t chunk_numel, const std::vector<Piece>& offloaded) {
  chunk_numel = whole_units(std::min(chunk_numel, std::max<std::int64_t>(offloaded_numel_, 1)));
  std::size_t piece = 0, stretch = 0;
  std::int64_t in_piece = 0;
  for (std::int64_t begin = 0; begin < offloaded_numel_; begin += chunk_numel) {
    const std::int64_t end = begin + std::min(chunk_numel, offloaded_numel_ - begin);
    std::vector<Piece> pieces;
    while (piece < offloaded.size()) {
      const Piece rest = offloaded[piece].part(in_piece, offloaded[piece].numel);
      const std::int64_t at = place(rest.local_begin);
      if (at >= end) break;
      pieces.push_back(rest.part(0, end - at));
      in_piece += pieces.back().numel;
      if (in_piece < offloaded[piece].numel) break;
      ++piece;
      in_piece = 0;
    }
    std::vector<Stretch> stretches;
    for (std::size_t i = stretch; i < stretches_.size(); ++i) {
      const Stretch& whole = stretches_[i];
      if (!whole.offloaded) continue;
      if (whole.place >= end) break;
      const std::int64_t from = std::max(whole.place, begin),
                         to = std::min(whole.place + whole.numel, end);
      if (to > from)
        stretches.push_back({whole.local_begin + from - whole.place, to - from, from, true});
      if (to == whole.place + whole.numel) stretch = i + 1;
    }
    chunks_.push_back({static_cast<std::int64_t>(chunks_.size()), begin, end - begin,
                       host::PieceLoop(pieces), std::move(stretches)});
  }
}

std::vector<FlatRange> StateSplit::grad_pages(std::int64_t page_numel) const {
  std::vector<FlatRange> pages;
  for (const Stretch& stretch : stretches_) {
    if (!stretch.offloaded) continue;
    const std::int64_t begin = stretch.local_begin / page_numel * page_numel;
    const std::int64_t end = stretch.local_begin + stretch.numel;
    const std::int64_t next = std::min((end + page_numel - 1) / page_numel * page_numel, numel());
    if (!pages.empty() && pages.back().end >= begin) {
      pages.back().end = next;
    } else {
      pages.push_back({begin, next});
    }
  }
  return pages;
}

std::int64_t StateSplit::place(std::int64_t local) const {
  const auto after = std::ranges::upper_bound(stretches_, local, {}, &Stretch::local_begin);
  const Stretch& stretch = *std::prev(after);
  return stretch.place + local - stretch.local_begin;
}

std::vector<Piece> resident_pieces(const FlatLayout& layout, const std::vector<FlatRange>& ranges,
                                   const StateSplit* split) {
  return split == nullptr ? layout.pieces(ranges) : split->resident_pieces();
}

}  // namespace zeroproof::cuda
