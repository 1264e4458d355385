#pragma once
// mpi.h for a program that runs with or without MPI: the names that the communicator uses, for the
// library found at run time (internal to the MPI communicator).
//
// Two families of libraries promise a fixed binary interface. Open MPI 4 and 5 have libmpi.so.40;
// MPICH, Intel MPI and others libmpi.so.12 (MPICH ABI Compatibility Initiative). They differ in
// handles (addresses of objects of the library; numbers) and in constants. A handle here is as wide
// as an address. On x86-64 a function that takes a number reads the low half of its register, and
// one that writes a number leaves the high half, which is 0 from the start.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace zeroproof {

#if !defined(__x86_64__)
#error "handles of both families as addresses were checked on x86-64 alone; use ZP_MPI=ON"
#endif

/// The MPI library of this process. The first use loads it: that of the launcher that started this
/// process, or would start ranks.
class LoadedMpi {
 public:
  /// Errors: unavailable if no library is found.
  static const LoadedMpi& of_process();

  bool is_mpich() const { return is_mpich_; }
  /// Errors: unavailable if the library has no such symbol.
  void* symbol(const char* name) const;

 private:
  LoadedMpi();

  void* library_ = nullptr;
  bool is_mpich_ = false;
};

/// A function of the library, found at its first call.
template <class... Args>
class LoadedMpiFunction {
 public:
  explicit constexpr LoadedMpiFunction(const char* name) : name_(name) {}
  int operator()(Args... args) const {
    void* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) function_ = function = LoadedMpi::of_process().symbol(name_);
    return reinterpret_cast<int (*)(Args...)>(function)(args...);
  }

 private:
  const char* name_;
  mutable std::atomic<void*> function_ = nullptr;
};

/// A handle of the library: the address of an object of Open MPI, or the number in MPICH.
template <class Handle>
class LoadedMpiHandle {
 public:
  constexpr LoadedMpiHandle(const char* open_mpi, std::uintptr_t mpich)
      : open_mpi_(open_mpi), mpich_(mpich) {}
  operator Handle() const {
    void* value = value_.load(std::memory_order_relaxed);
    if (value == nullptr) {
      const LoadedMpi& mpi = LoadedMpi::of_process();
      value_ = value = mpi.is_mpich() ? reinterpret_cast<void*>(mpich_) : mpi.symbol(open_mpi_);
    }
    return static_cast<Handle>(value);
  }

 private:
  const char* open_mpi_;
  std::uintptr_t mpich_;
  mutable std::atomic<void*> value_ = nullptr;
};

/// A number that differs between the families.
struct LoadedMpiNumber {
  std::intptr_t open_mpi, mpich;
  operator int() const {
    return static_cast<int>(LoadedMpi::of_process().is_mpich() ? mpich : open_mpi);
  }
};

struct MPI_Status {
  alignas(8) std::byte bytes[64];  // 24 in Open MPI, 20 in MPICH
};

/// What a caller that needs no status passes: no address, or the address 1.
struct LoadedMpiNoStatus {
  operator MPI_Status*() const {
    return reinterpret_cast<MPI_Status*>(
        static_cast<std::uintptr_t>(LoadedMpi::of_process().is_mpich() ? 1 : 0));
  }
};

// Types, constants and functions under their own names. Sources: mpi.h of Open MPI 4.1.4 and of
// MPICH 4.0.2.
using MPI_Aint = std::ptrdiff_t;
using MPI_Comm = struct LoadedMpiComm*;
using MPI_Datatype = struct LoadedMpiDatatype*;
using MPI_Errhandler = struct LoadedMpiErrhandler*;
using MPI_Group = struct LoadedMpiGroup*;
using MPI_Info = struct LoadedMpiInfo*;
using MPI_Op = struct LoadedMpiOp*;
using MPI_Request = struct LoadedMpiRequest*;
using MPI_Win = struct LoadedMpiWin*;

inline constexpr int MPI_SUCCESS = 0;
inline constexpr int MPI_THREAD_SINGLE = 0;
inline constexpr int MPI_THREAD_SERIALIZED = 2;
inline constexpr int MPI_MAX_ERROR_STRING = 512;             // 256 in Open MPI
inline constexpr int MPI_MAX_LIBRARY_VERSION_STRING = 8192;  // 256 in Open MPI
inline constexpr LoadedMpiNumber MPI_TAG_UB{0, 0x64400001};
inline constexpr LoadedMpiNumber MPI_COMM_TYPE_SHARED{0, 1};
inline constexpr LoadedMpiNumber MPI_MODE_NOCHECK{1, 1024};
inline constexpr LoadedMpiNoStatus MPI_STATUS_IGNORE;

inline const LoadedMpiHandle<MPI_Comm> MPI_COMM_WORLD("ompi_mpi_comm_world", 0x44000000);
inline const LoadedMpiHandle<MPI_Comm> MPI_COMM_NULL("ompi_mpi_comm_null", 0x04000000);
inline const LoadedMpiHandle<MPI_Group> MPI_GROUP_NULL("ompi_mpi_group_null", 0x08000000);
inline const LoadedMpiHandle<MPI_Request> MPI_REQUEST_NULL("ompi_request_null", 0x2c000000);
inline const LoadedMpiHandle<MPI_Win> MPI_WIN_NULL("ompi_mpi_win_null", 0x20000000);
inline const LoadedMpiHandle<MPI_Info> MPI_INFO_NULL("ompi_mpi_info_null", 0x1c000000);
inline const LoadedMpiHandle<MPI_Errhandler> MPI_ERRORS_RETURN("ompi_mpi_errors_return",
                                                               0x54000001);
inline const LoadedMpiHandle<MPI_Datatype> MPI_BYTE("ompi_mpi_byte", 0x4c00010d);
inline const LoadedMpiHandle<MPI_Datatype> MPI_CHAR("ompi_mpi_char", 0x4c000101);
inline const LoadedMpiHandle<MPI_Datatype> MPI_FLOAT("ompi_mpi_float", 0x4c00040a);
inline const LoadedMpiHandle<MPI_Op> MPI_SUM("ompi_mpi_op_sum", 0x58000003);

#define ZP_LOADED_MPI(name, ...) inline const LoadedMpiFunction<__VA_ARGS__> name(#name)
ZP_LOADED_MPI(MPI_Abort, MPI_Comm, int);
ZP_LOADED_MPI(MPI_Cancel, MPI_Request*);
ZP_LOADED_MPI(MPI_Comm_create_group, MPI_Comm, MPI_Group, int, MPI_Comm*);
ZP_LOADED_MPI(MPI_Comm_free, MPI_Comm*);
ZP_LOADED_MPI(MPI_Comm_get_attr, MPI_Comm, int, void*, int*);
ZP_LOADED_MPI(MPI_Comm_group, MPI_Comm, MPI_Group*);
ZP_LOADED_MPI(MPI_Comm_rank, MPI_Comm, int*);
ZP_LOADED_MPI(MPI_Comm_set_errhandler, MPI_Comm, MPI_Errhandler);
ZP_LOADED_MPI(MPI_Comm_size, MPI_Comm, int*);
ZP_LOADED_MPI(MPI_Comm_split_type, MPI_Comm, int, int, MPI_Info, MPI_Comm*);
ZP_LOADED_MPI(MPI_Error_string, int, char*, int*);
ZP_LOADED_MPI(MPI_Finalize);
ZP_LOADED_MPI(MPI_Finalized, int*);
ZP_LOADED_MPI(MPI_Get_count, const MPI_Status*, MPI_Datatype, int*);
ZP_LOADED_MPI(MPI_Get_library_version, char*, int*);
ZP_LOADED_MPI(MPI_Group_free, MPI_Group*);
ZP_LOADED_MPI(MPI_Group_incl, MPI_Group, int, const int*, MPI_Group*);
ZP_LOADED_MPI(MPI_Iallgather, const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm,
              MPI_Request*);
ZP_LOADED_MPI(MPI_Ibarrier, MPI_Comm, MPI_Request*);
ZP_LOADED_MPI(MPI_Init_thread, int*, char***, int, int*);
ZP_LOADED_MPI(MPI_Initialized, int*);
ZP_LOADED_MPI(MPI_Irecv, void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
ZP_LOADED_MPI(MPI_Isend, const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
ZP_LOADED_MPI(MPI_Reduce_scatter, const void*, void*, const int*, MPI_Datatype, MPI_Op, MPI_Comm);
ZP_LOADED_MPI(MPI_Test, MPI_Request*, int*, MPI_Status*);
ZP_LOADED_MPI(MPI_Win_allocate_shared, MPI_Aint, int, MPI_Info, MPI_Comm, void*, MPI_Win*);
ZP_LOADED_MPI(MPI_Win_free, MPI_Win*);
ZP_LOADED_MPI(MPI_Win_lock_all, int, MPI_Win);
ZP_LOADED_MPI(MPI_Win_shared_query, MPI_Win, int, MPI_Aint*, int*, void*);
ZP_LOADED_MPI(MPI_Win_sync, MPI_Win);
ZP_LOADED_MPI(MPI_Win_unlock_all, MPI_Win);
#undef ZP_LOADED_MPI

}  // namespace zeroproof
