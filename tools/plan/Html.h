/// --report=html: one page, without network, that shows a compilation.
#pragma once

#include "tools/plan/Measured.h"
#include "tools/plan/Plan.h"
#include "tools/plan/Trail.h"

namespace cria {

/// The content of a page.
struct Page {
  /// The input's name.
  std::string title;
  const Compilation &compilation;
  const Plan &plan;
  const Trail &trail;
  const Measurements &measured; // empty: nothing was measured
};

/// Writes the page.
void printHtml(const Page &page, llvm::raw_ostream &os);

} // namespace cria
