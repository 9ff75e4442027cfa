/// Looks for registers of wgmma that are used at the wrong time.
///
/// A product is asynchronous: until wgmma.wait_group its accumulators must not
/// be used, but by products of the same shape, and registers that hold its A
/// must not be written. Between another use of its registers and the product
/// there must be a wgmma.fence. This holds on every way through a function.
///
/// For each register, the ways to an instruction have in common: the product
/// that may be under way (the latest, by the groups that were committed since)
/// and the last use without a fence behind it.
#pragma once

#include "tools/emulator/ptx/Ast.h"

namespace cria::emulator {

/// The first wrong use in `function`.
std::optional<Error> checkProducts(const Function &function);

} // namespace cria::emulator
