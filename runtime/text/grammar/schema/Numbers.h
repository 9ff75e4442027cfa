/// Numbers of JSON between two bounds.
#pragma once

#include "runtime/text/grammar/Expression.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cria::grammar {

/// A decimal number: sign, whole part, and the digits of its fraction without
/// zeros at the end. Zero is not negative.
struct Decimal {
  bool negative = false;
  uint64_t whole = 0;
  std::string fraction;

  /// A number as JSON spells it; nothing if it has more than 19 digits before
  /// the point or more than 40 after it.
  static std::optional<Decimal> parse(std::string_view text);

  bool isZero() const { return whole == 0 && fraction.empty(); }
  /// Negative if this number is less than `other`, 0 if they are equal,
  /// positive if this number is greater.
  int compare(const Decimal &other) const;
};

/// An end of a range.
struct Bound {
  Decimal value;
  bool exclusive = false;
};

struct Range {
  std::optional<Bound> low, high;

  void atLeast(Bound bound);
  void atMost(Bound bound);
};

/// The integers of the range, without a fraction and leading zeros.
Expression integersIn(const Range &range);
/// The numbers of the range, without an exponent.
Expression numbersIn(const Range &range);

} // namespace cria::grammar
