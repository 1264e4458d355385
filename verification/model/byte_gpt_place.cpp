#include "verification/model/byte_gpt_place.hpp"

#include <string>
#include <vector>

#include "common/base/error.hpp"

namespace zeroproof::workload {
namespace {

int size_of(const Communicator* group) { return group == nullptr ? 1 : group->world_size(); }
int rank_in(const Communicator* group) { return group == nullptr ? 0 : group->rank(); }

void check_group(const char* what, int size) {
  ZP_CHECK(size == 1 || size == 2 || size == 4 || size == 8, ErrorCode::invalid_argument,
           "the " + std::string(what) + " group has " + std::to_string(size) + " ranks",
           "sums are split into 8 blocks", "choose 1, 2, 4 or 8 ranks");
}

template <class Real>
Span<std::byte> bytes_of(Matrix<Real> dense) {
  return std::as_writable_bytes(
      Span<Real>(dense.data, static_cast<std::size_t>(dense.rows * dense.columns)));
}

template <class Real>
Matrix<Real> part_of(const BlockRange& rows, int rank, int size, Matrix<Real> matrix) {
  const BlockRange part = rows.part(rank, size);
  return matrix.row_range(part.begin() - rows.begin(), part.numel());
}

double fold_over_group(Communicator* group, double partial) {
  if (size_of(group) == 1) return partial;
  double nodes[sum_blocks] = {};
  std::vector<Span<std::byte>> recv;
  for (int s = 0; s < group->world_size(); ++s) {
    recv.push_back(std::as_writable_bytes(Span<double>(&nodes[s], 1)));
  }
  group->all_gather(std::as_bytes(Span<const double>(&partial, 1)), recv);
  fused_fold(nodes, group->world_size());
  return nodes[0];
}

}  // namespace

void check_sizes(const ByteGptShape& shape, int tp_size, int cp_size) {
  check_group("tensor parallel", tp_size);
  check_group("context parallel", cp_size);
  ZP_CHECK(cp_size * tp_size <= sum_blocks, ErrorCode::invalid_argument,
           "got " + std::to_string(cp_size) + " context times " + std::to_string(tp_size) +
               " tensor parallel ranks",
           "together they divide the 8 blocks of positions",
           "choose sizes with a product of at most 8");
  ZP_CHECK(shape.heads % tp_size == 0, ErrorCode::invalid_argument,
           "the model has " + std::to_string(shape.heads) + " heads on " + std::to_string(tp_size) +
               " tensor parallel ranks",
           "a head is never split", "choose a number of ranks that divides the heads");
  ZP_CHECK(
      !shape.tied || cp_size * tp_size == 1, ErrorCode::invalid_argument,
      "embeddings are tied and " + std::to_string(cp_size * tp_size) + " ranks share a micro-batch",
      "their gradient adds two sums over positions, and parts of it would fold to other bits",
      "untie them or use one rank per micro-batch");
}

ByteGptPlace::ByteGptPlace(const ByteGptShape& shape, const ByteGptGroups& given)
    : groups(given),
      tp_size(size_of(given.tp)),
      tp_rank(rank_in(given.tp)),
      cp_size(size_of(given.cp)),
      cp_rank(rank_in(given.cp)) {
  check_sizes(shape, tp_size, cp_size);
}

template <class Real>
void gather_rows(Communicator* group, const BlockRange& rows, Matrix<Real> matrix) {
  if (size_of(group) == 1) return;
  std::vector<Span<std::byte>> recv;
  for (int s = 0; s < group->world_size(); ++s) {
    recv.push_back(bytes_of(part_of(rows, s, group->world_size(), matrix)));
  }
  group->all_gather(recv[group->rank()], recv);
}

template <class Real>
Matrix<Real> fold_rows(Communicator* group, const BlockRange& rows, Matrix<Real> partial) {
  const int size = size_of(group);
  const int mine = rank_in(group);
  const Matrix<Real> own = part_of(rows, mine, size, partial);
  if (size == 1) return own;
  const std::int64_t numel = own.rows * own.columns;
  std::vector<Real> received(numel * size);
  std::vector<Span<const std::byte>> send(size);
  std::vector<Span<std::byte>> recv(size);
  for (int s = 0; s < size; ++s) {
    if (s == mine) continue;
    const auto k = static_cast<std::size_t>(s);
    send[k] = bytes_of(part_of(rows, s, size, partial));
    recv[k] = bytes_of(Matrix<Real>(received.data() + s * numel, own.rows, own.columns));
  }
  group->all_to_all(send, recv);
  for (std::int64_t i = 0; i < numel; ++i) {
    Real nodes[sum_blocks] = {};
    for (int s = 0; s < size; ++s) {
      nodes[s] = s == mine ? own.data[i] : received[s * numel + i];
    }
    fused_fold(nodes, size);
    own.data[i] = nodes[0];
  }
  return own;
}

double fold_over_ranks(const ByteGptPlace& place, double partial) {
  return fold_over_group(place.groups.cp, fold_over_group(place.groups.tp, partial));
}

#define ZP_INSTANTIATE(Real)                                                 \
  template void gather_rows(Communicator*, const BlockRange&, Matrix<Real>); \
  template Matrix<Real> fold_rows(Communicator*, const BlockRange&, Matrix<Real>)

ZP_INSTANTIATE(float);
ZP_INSTANTIATE(double);
#undef ZP_INSTANTIATE

}  // namespace zeroproof::workload
