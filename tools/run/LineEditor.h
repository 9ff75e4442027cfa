/// A line that a person edits before it counts, by libedit.
#pragma once

#include "runtime/base/Status.h"

#include <memory>
#include <string>

namespace cria {

/// Arrows, history (of this process alone) and pasted text, whose ends of lines
/// do not end the line.
class LineEditor {
public:
  /// Null if standard input or standard error is no terminal, or if there is no
  /// libedit. It is opened when needed, as no other use needs it.
  static std::unique_ptr<LineEditor> open();
  ~LineEditor();

  /// Shows `prompt` on standard error and reads a line, without its end. False
  /// at the end of the input.
  Result<bool> next(const std::string &prompt, std::string &line);

  struct Library;

private:
  explicit LineEditor(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library;
};

} // namespace cria
