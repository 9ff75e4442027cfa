/// Loading of modules, which libraries and links share.
#pragma once

#include "tools/emulator/driver/Driver.h"
#include "tools/emulator/driver/Fatbin.h"

namespace cria::emulator {

/// The buffers for messages that a caller passed as CUjit_options.
class JitLog {
public:
  JitLog() = default;
  JitLog(unsigned count, CUjit_option *options, void **values)
      : count(count), options(options), values(values) {}

  /// Writes the text and its length to the caller's buffers.
  void error(const std::string &text);
  /// An error of PTX, with the words of NVIDIA's assembler.
  void error(const Error &error);

private:
  void **find(CUjit_option option);

  unsigned count = 0;
  CUjit_option *options = nullptr;
  void **values = nullptr;
};

/// The PTX of `image`; else the result of the call, whose reason is logged and,
/// if the image has no PTX, printed.
std::variant<PtxTexts, CUresult> readImage(const void *image, JitLog log);

/// A module of the current context with what `texts` define.
CUresult loadModule(const PtxTexts &texts, JitLog log, CUmodule *module);

/// The bytes of a file with a zero byte after them.
std::variant<std::string, CUresult> readFile(const char *path);

/// The function of a kernel of `module`, compiled.
CUresult functionOf(CUmodule module, const std::string &name,
                    CUfunction *function);

} // namespace cria::emulator
