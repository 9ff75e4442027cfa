/// Checks that registers of wgmma are not used at the wrong time.
///
/// A product is asynchronous. Until wgmma.wait_group, its accumulators must not
/// be used, except by products of the same shape, and registers that hold its A
/// must not be written. Between another use of its registers and the product
/// there must be a wgmma.fence. This holds on every path through a function.
///
/// At each instruction, the check knows two things about each register, over
/// all paths to the instruction: the product that may be pending (the one with
/// the fewest groups committed since), and a use that no fence has followed.
#pragma once

#include "tools/emulator/ptx/Ast.h"

namespace cria::emulator {

/// The first wrong use in `function`.
std::optional<Error> checkProducts(const Function &function);

} // namespace cria::emulator
