/// Cases for one type of integer after another.
#pragma once

#include "test/emulator/opcodes/Opcodes.h"

namespace cria::emulator {

using Cases = std::vector<OpcodeCase>;
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;

/// The registers of operands as wide as T: inputs, and the result.
template <typename T> inline std::string in(int i) {
  return (sizeof(T) == 8   ? "%x"
          : sizeof(T) == 4 ? "%a"
                           : "%h") +
         std::to_string(i);
}
template <typename T> std::string out() {
  return sizeof(T) == 8 ? "%y" : sizeof(T) == 4 ? "%r0" : "%s";
}
template <typename T> T read(const Inputs &inputs, int i) {
  return T(inputs.x[i]);
}
template <typename T> void write(Results &results, T value) {
  if (sizeof(T) == 8)
    results.y = u64(value);
  else if (sizeof(T) == 4)
    results.r[0] = u32(value);
  else
    results.s = uint16_t(value);
}

/// op d, a, b as `meaning(a, b)`.
template <typename T, typename F>
void add2(Cases &cases, std::string op, F meaning) {
  cases.push_back(
      alone(op + " " + out<T>() + ", " + in<T>(0) + ", " + in<T>(1) + ";",
            [meaning](const Inputs &i, Results &o) {
              write<T>(o, T(meaning(read<T>(i, 0), read<T>(i, 1))));
            }));
}
template <typename T, typename F>
void add1(Cases &cases, std::string op, F meaning) {
  cases.push_back(alone(op + " " + out<T>() + ", " + in<T>(0) + ";",
                        [meaning](const Inputs &i, Results &o) {
                          write<T>(o, T(meaning(read<T>(i, 0))));
                        }));
}

} // namespace cria::emulator
