# Builds the runtime for 64-bit Arm, by Debian's cross compiler and arm64 packages:
# cmake -S runtime -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=runtime/aarch64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_STRIP aarch64-linux-gnu-strip)
# Boards need the C library alone, and none of GCC's.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static-libstdc++ -static-libgcc")
