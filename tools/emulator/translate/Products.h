/// Looks for registers of wgmma that are used at the wrong time.
///
/// A product is asynchronous: until wgmma.wait_group its accumulators must not
/// be used, but by products of the same shape, and registers that hold its A
/// must not be written. Between another use of its registers and the product
/// there must be a wgmma.fence. This holds on every way through a function.
///
/// At each instruction the check knows of each register, over all ways that
/// lead there: the product that may be under way (the one with the fewest
/// groups committed since) and a use that no fence has followed.
#pragma once

#include "tools/emulator/ptx/Ast.h"

namespace cria::emulator {

/// The first wrong use in `function`.
std::optional<Error> checkProducts(const Function &function);

} // namespace cria::emulator
