# zp_isa_objects(<prefix> <out-objects> LAYERS <layer>... SOURCE <file> [OPTIONS <flag>...] [ALSO <variant>...]):
# compiles one source file once per instruction set of zp_isa_variants, and of ALSO, with ZP_ISA_NAMESPACE naming the
# variant, and returns the objects. Targets that use the
# variants get ${zp_isa_definitions}. On other processors than x86-64 there is the baseline only, with the same name.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(zp_isa_variants x86_64 x86_64_v3 x86_64_v4)
  # g++ 12 may load an MMX register and never clear the MMX state: after that every long double of the thread is NaN.
  set(zp_isa_flags_x86_64 -march=x86-64 -mno-mmx)
  set(zp_isa_flags_x86_64_v3 -march=x86-64-v3 -mno-mmx)
  set(zp_isa_flags_x86_64_v4 -march=x86-64-v4 -mprefer-vector-width=512 -mno-mmx)
  set(zp_isa_flags_x86_64_v4_bf16 ${zp_isa_flags_x86_64_v4} -mavx512bf16)
  set(zp_isa_definitions ZP_ISA_VARIANTS)
else()
  set(zp_isa_variants x86_64)
endif()

# The optimisation of the variants in every build type: a loop that is not vectorised would not test
# vector code. Only tests/golden/compilers.sh sets another one.
set(ZP_KERNEL_OPTIMISATION -O3 CACHE STRING "Optimisation level of the host kernels")
mark_as_advanced(ZP_KERNEL_OPTIMISATION)

function(zp_isa_objects prefix out)
  cmake_parse_arguments(arg "" "SOURCE" "LAYERS;OPTIONS;ALSO" ${ARGN})
  set(objects "")
  foreach(variant IN LISTS zp_isa_variants arg_ALSO)
    add_library(${prefix}_${variant} OBJECT ${arg_SOURCE})
    zp_layer_target(${prefix}_${variant} ${arg_LAYERS})
    target_compile_definitions(${prefix}_${variant} PRIVATE ZP_ISA_NAMESPACE=${variant})
    target_compile_options(${prefix}_${variant} PRIVATE ${zp_isa_flags_${variant}} ${ZP_KERNEL_OPTIMISATION}
      ${arg_OPTIONS})
    list(APPEND objects $<TARGET_OBJECTS:${prefix}_${variant}>)
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()
