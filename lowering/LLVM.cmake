# What the compiler is made with: MLIR, LLVM and lld. `CRIA_MLIR`, `CRIA_LLVM` and
# `CRIA_LLD` are linked: shared libraries, or archives if CRIA_STATIC is on.
set(ZLIB_USE_STATIC_LIBS ${CRIA_STATIC})
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT LLVM_ENABLE_ZSTD)
  message(FATAL_ERROR "expected an LLVM with zstd, which packs code for GPUs: "
                      "LLVM_ENABLE_ZSTD is off in ${LLVM_DIR}")
endif()
find_package(LLD 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/lld)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR})
include_directories(SYSTEM ${PROJECT_BINARY_DIR}) # what tablegen wrote
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND ${LLVM_DEFINITIONS})
add_definitions(${LLVM_DEFINITIONS_LIST})

# By path: lld's CMake targets pull in the static LLVM beside the shared one.
find_library(LLD_ELF lldELF HINTS ${LLVM_LIBRARY_DIR} REQUIRED)
find_library(LLD_COMMON lldCommon HINTS ${LLVM_LIBRARY_DIR} REQUIRED)

if(NOT CRIA_STATIC)
  set(CRIA_MLIR MLIR LLVM)
  set(CRIA_LLVM LLVM)
  set(CRIA_LLD ${LLD_ELF} ${LLD_COMMON} zstd::libzstd_shared ZLIB::ZLIB)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON) # Debian keeps LLVM in a folder of its own
  return()
endif()
# By path, because Debian's CMake targets of archives need the shared LLVM. Archives name
# each other in circles.
file(GLOB archives ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
list(FILTER archives EXCLUDE REGEX "/libMLIR(CAPI|.*Test)")
list(JOIN archives "," archives)
# MLIR's dialects for GPUs need the targets AMDGPU and SPIRV.
set(unused ${LLVM_TARGETS_TO_BUILD})
list(REMOVE_ITEM unused X86 AArch64 NVPTX AMDGPU SPIRV)
list(TRANSFORM unused REPLACE "(.+)" "UNUSED(\\1)\n")
list(JOIN unused "" unused)
file(CONFIGURE OUTPUT UnusedTargets.def CONTENT "${unused}")
add_library(CriaStandIns OBJECT lowering/StandIns.cpp)
add_library(CriaStaticLLVM INTERFACE)
target_link_libraries(CriaStaticLLVM INTERFACE $<TARGET_OBJECTS:CriaStandIns>
  $<LINK_GROUP:RESCAN,${archives},${LLD_ELF},${LLD_COMMON},zstd::libzstd_static,ZLIB::ZLIB>
  ${CMAKE_DL_LIBS})
target_link_options(CriaStaticLLVM INTERFACE LINKER:--gc-sections)
set(CRIA_MLIR CriaStaticLLVM)
set(CRIA_LLVM CriaStaticLLVM)
set(CRIA_LLD CriaStaticLLVM)
