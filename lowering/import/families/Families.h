/// The rows of the table of families, by the kind of model.
#pragma once

#include "lowering/import/Family.h"

namespace cria {

llvm::ArrayRef<Family> textFamilies();
llvm::ArrayRef<Family> towerFamilies();
llvm::ArrayRef<Family> compositeFamilies();

// What towers and texts have in common.
inline constexpr NormKind kLayerNorm = {NormKind::Layer, /*roundsOnce=*/false,
                                        /*unitOffset=*/false,
                                        /*hasWeight=*/true, /*hasBias=*/true};
inline constexpr Biases kBiases = {Bias::Always, Bias::Always, Bias::Always};

} // namespace cria
