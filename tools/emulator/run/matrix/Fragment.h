/// How a warp holds the matrices of mma.sync and wmma in its registers.
#pragma once

#include "tools/emulator/run/Collective.h"

namespace cria::emulator {

/// The place of an element in a matrix.
struct MatrixPlace {
  unsigned row, column;
};

/// The layout of one matrix of a product.
///
/// A register of A and B has `each` elements, neighbours along k. Slot s of all
/// lanes is a tile of 8 rows and 4 * each columns of A (of 4 * each rows and 8
/// columns of B): lane l holds the elements from (l / 4, l % 4 * each) on, in B
/// from (l % 4 * each, l / 4) on. The tiles of A are ordered by columns of
/// tiles, those of B too. C is like A with two elements in a slot.
///
/// This is the layout that the PTX manual gives for mma.sync. The manual leaves
/// the layout of wmma open; here it is the same.
struct FragmentLayout {
  FragmentRole role;
  MmaShape shape;
  unsigned bits; ///< of an element
  unsigned each; ///< elements of a slot

  constexpr FragmentLayout(FragmentRole role, MmaElement element,
                           MmaShape shape)
      : role(role), shape(shape), bits(bitsOf(element)),
        each(role == FragmentRole::C ? 2
             : bits < 32             ? 32 / bits
                                     : 1) {}

  constexpr unsigned rows() const {
    return role == FragmentRole::B ? shape.k : shape.m;
  }
  constexpr unsigned columns() const {
    return role == FragmentRole::A ? shape.k : shape.n;
  }
  /// Slots of a lane, and words (of 32 bits).
  constexpr unsigned slots() const { return rows() * columns() / 32 / each; }
  constexpr unsigned words() const { return slots() * each * bits / 32; }
  /// The place of the first element of a slot. The others follow along k, in C
  /// along the row.
  constexpr MatrixPlace place(unsigned lane, unsigned slot) const {
    unsigned inner = lane % 4 * each;
    if (role == FragmentRole::B) {
      unsigned tiles = rows() / (4 * each);
      return {slot % tiles * 4 * each + inner, slot / tiles * 8 + lane / 4};
    }
    unsigned tiles = rows() / 8;
    return {slot % tiles * 8 + lane / 4, slot / tiles * 4 * each + inner};
  }
};

} // namespace cria::emulator
