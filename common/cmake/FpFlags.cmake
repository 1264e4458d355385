# The floating-point flags of the numeric contract (R2-R4), in one target that every library links.
# Contract flags carry no -march: instruction sets are chosen per source file in cuda/host/simd.
add_library(zp_fp_flags INTERFACE)
set(zp_host_fp_flags -ffp-contract=off -fno-fast-math -fno-math-errno -fno-trapping-math)
target_compile_options(zp_fp_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:${zp_host_fp_flags}>
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -prec-div=true -prec-sqrt=true -ftz=false
    -Xcompiler=-ffp-contract=off -Xcompiler=-fno-fast-math>)

# Unsafe flags from the environment would silently break the numeric contract.
foreach(flags IN ITEMS "${CMAKE_CXX_FLAGS}" "${CMAKE_C_FLAGS}" "${CMAKE_CUDA_FLAGS}" "${CMAKE_EXE_LINKER_FLAGS}"
                       "${CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE}}")
  if(flags MATCHES "-Ofast|-ffast-math|use_fast_math|-funsafe-math|-ffp-contract=fast|-freciprocal-math|-fassociative-math|-ffinite-math|-fno-signed-zeros")
    message(FATAL_ERROR "The compiler flags contain ${CMAKE_MATCH_0} (results would no longer follow the numeric "
      "contract); remove it from CFLAGS, CXXFLAGS or the cache.")
  endif()
endforeach()
