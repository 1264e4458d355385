#include <algorithm>

#include "common/io/json.hpp"
#include "common/step/policy.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"
#include "verification/tools/plan/owners.hpp"
#include "verification/tools/plan/report.hpp"

namespace zeroproof::verification {
namespace {

/// Title of the first column, and a description of its buffers.
struct BufferWords {
  const char* name;
  const char* meaning;
};

BufferWords words_of(LayoutKind kind) {
  switch (kind) {
    case LayoutKind::contract:
      return {"buffer",
              "slices of equal buckets, in the global numbering; a tensor begins at a multiple of "
              "1,024"};
    case LayoutKind::megatron:
      return {"bucket",
              "tensors from the last to the first, each from a multiple of 64; rank r has part r "
              "of each"};
    case LayoutKind::deepspeed_flat:
      return {"group", "a param group's tensors one after another; rank r has part r of each"};
    case LayoutKind::deepspeed_param:
      return {"tensor", "every tensor by itself; rank r has part r of each"};
    case LayoutKind::fsdp2:
      return {
          "tensor",
          "rows of every tensor; rank r has as many rows as rank 0, its last ones may be padding"};
    case LayoutKind::greedy:
      return {"tensor", "whole tensors, the largest first, each to the rank that has least"};
  }
  return {"buffer", ""};
}

void add_row(std::string& out, const PeerSlice& slice, std::int64_t begin, std::int64_t end,
             const std::string& within, const std::string& name) {
  out += fmt::format("  {:>6}  {:>29}  {:>13}  {:>29}  {}\n", grouped(slice.buffer),
                     grouped(begin) + " - " + grouped(end), grouped(end - begin), within, name);
}

/// The rows of a slice: gaps between two pieces, and at its ends, are padding.
void add_slice(std::string& out, const FlatLayout& layout, const PeerSlice& slice) {
  std::int64_t at = slice.buffer_begin;
  const auto padding_until = [&](std::int64_t end) {
    if (end > at) add_row(out, slice, at, end, "", "(padding)");
  };
  for (const PeerPiece& piece : slice.pieces) {
    padding_until(piece.buffer_begin);
    at = piece.buffer_begin + piece.numel;
    add_row(out, slice, piece.buffer_begin, at,
            grouped(piece.tensor_begin) + " - " + grouped(piece.tensor_begin + piece.numel),
            layout.tensors()[piece.tensor].name);
  }
  padding_until(slice.buffer_end);
}

void add_rank(std::string& out, const Owners& owners, const RankOwns& owns, const Paint& paint) {
  const BufferWords words = words_of(owners.settings.layout);
  out += "\n" +
         paint("1", fmt::format("rank {}: {} elements, {} of padding", owns.rank,
                                grouped(owns.numel), grouped(owns.padding))) +
         "\n";
  if (owns.numel + owns.padding == 0) return;
  out += fmt::format("  {:>6}  {:>29}  {:>13}  {:>29}  {}\n", words.name, "in the buffer",
                     "elements", "in the tensor", "tensor");
  for (const PeerSlice& slice : owns.slices) add_slice(out, owners.layout, slice);
}

void add_sum(std::string& out, const Owners& owners) {
  if (owners.settings.rank) return;
  std::int64_t numel = 0, padding = 0;
  for (const RankOwns& owns : owners.ranks) numel += owns.numel, padding += owns.padding;
  const auto by_numel = [](const RankOwns& a, const RankOwns& b) { return a.numel < b.numel; };
  const auto [least, most] =
      std::minmax_element(owners.ranks.begin(), owners.ranks.end(), by_numel);
  out += fmt::format(
      "\nall ranks: {} of {} elements, {} of padding; least {} (rank {}), most {} (rank {})\n",
      grouped(numel), grouped(owners.layout.numel()), grouped(padding), grouped(least->numel),
      least->rank, grouped(most->numel), most->rank);
}

Json slice_json(const FlatLayout& layout, const PeerSlice& slice) {
  Json pieces = Json::array();
  for (const PeerPiece& piece : slice.pieces) {
    pieces.push_back({{"tensor", layout.tensors()[piece.tensor].name},
                      {"tensor_begin", piece.tensor_begin},
                      {"tensor_end", piece.tensor_begin + piece.numel},
                      {"buffer_begin", piece.buffer_begin}});
  }
  return {{"buffer", slice.buffer},
          {"buffer_begin", slice.buffer_begin},
          {"buffer_end", slice.buffer_end},
          {"padding", slice.buffer_end - slice.buffer_begin - slice.numel},
          {"pieces", pieces}};
}

}  // namespace

std::string owners_text(const Owners& owners, bool colour) {
  const Paint paint{colour};
  const OwnersSettings& s = owners.settings;
  std::string out =
      fmt::format("zeroproof {}  numeric contract {}  owners of master and state: computed\n",
                  ZP_VERSION, contract_version);
  out += shown_name(owners.model) + "\n";
  out += fmt::format("{} parameters in {} tensors{}\n", grouped(owners.layout.numel()),
                     grouped(static_cast<std::int64_t>(owners.layout.tensors().size())),
                     s.tp > 1 ? fmt::format(", of a TP rank of {}", s.tp) : "");
  out +=
      fmt::format("layout {}: {} rank{} share{} the state", name(s.layout), grouped(s.world_size),
                  s.world_size == 1 ? "" : "s", s.world_size == 1 ? "s" : "");
  if (s.layout == LayoutKind::contract || s.layout == LayoutKind::megatron) {
    out += fmt::format(", buckets of {} elements", grouped(s.bucket_numel));
  }
  out += std::string("\n") + words_of(s.layout).meaning +
         "\nelements count from 0; an end is not included\n";
  for (const RankOwns& owns : owners.ranks) add_rank(out, owners, owns, paint);
  add_sum(out, owners);
  return out;
}

std::string owners_json(const Owners& owners) {
  const OwnersSettings& s = owners.settings;
  Json ranks = Json::array();
  for (const RankOwns& owns : owners.ranks) {
    Json slices = Json::array();
    for (const PeerSlice& slice : owns.slices) slices.push_back(slice_json(owners.layout, slice));
    ranks.push_back({{"rank", owns.rank},
                     {"numel", owns.numel},
                     {"padding", owns.padding},
                     {"slices", slices}});
  }
  const Json json = {{"schema", "zeroproof-owners/1"},
                     {"program", std::string("zeroproof ") + ZP_VERSION},
                     {"numeric_contract", contract_version},
                     {"model",
                      {{"source", owners.model},
                       {"parameters_of_tp_rank", owners.layout.numel()},
                       {"tensors", owners.layout.tensors().size()}}},
                     {"settings",
                      {{"layout", name(s.layout)},
                       {"ranks", s.world_size},
                       {"tp", s.tp},
                       {"bucket_numel", s.bucket_numel}}},
                     {"ranks", ranks}};
  return json.dump(2) + "\n";
}

}  // namespace zeroproof::verification
