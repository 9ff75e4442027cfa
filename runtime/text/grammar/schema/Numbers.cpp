#include "runtime/text/grammar/schema/Numbers.h"

#include <algorithm>
#include <cstdlib>

namespace cria::grammar {

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal result;
  result.negative = !text.empty() && text[0] == '-';
  text.remove_prefix(result.negative);
  size_t end = std::min(text.find_first_of("eE"), text.size());
  long exponent =
      end < text.size()
          ? strtol(std::string(text.substr(end + 1)).c_str(), nullptr, 10)
          : 0;
  std::string digits(text.substr(0, end));
  size_t point = std::min(digits.find('.'), digits.size());
  if (point < digits.size())
    digits.erase(point, 1);
  if (exponent < -64 || exponent > 64 || digits.size() > 128)
    return std::nullopt;
  long whole = static_cast<long>(point) + exponent;
  if (whole < 0)
    digits.insert(0, static_cast<size_t>(-whole), '0');
  size_t split = static_cast<size_t>(std::max(whole, 0L));
  digits.resize(std::max(digits.size(), split), '0');
  result.fraction = digits.substr(split);
  result.fraction.erase(result.fraction.find_last_not_of('0') + 1);
  digits.resize(split);
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.size() > 19 || result.fraction.size() > 40)
    return std::nullopt;
  result.whole = strtoull(digits.c_str(), nullptr, 10);
  result.negative &= !result.isZero();
  return result;
}

int Decimal::compare(const Decimal &other) const {
  if (negative != other.negative)
    return negative ? -1 : 1;
  int size = whole != other.whole ? (whole < other.whole ? -1 : 1)
                                  : fraction.compare(other.fraction);
  return negative ? -size : size;
}

void Range::atLeast(Bound bound) {
  int order = low ? bound.value.compare(low->value) : 1;
  if (order > 0 || (order == 0 && bound.exclusive))
    low = std::move(bound);
}

void Range::atMost(Bound bound) {
  int order = high ? bound.value.compare(high->value) : -1;
  if (order < 0 || (order == 0 && bound.exclusive))
    high = std::move(bound);
}

// ---- Digits ----------------------------------------------------------------

static Expression digit(char first, char last) {
  return oneOf({{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}});
}

static Expression digits(uint32_t least, uint32_t most) {
  return repeat(digit('0', '9'), least, most);
}

/// Numbers from `low` to `high`, which have equally many digits. `low` is a
/// bound only if `above`, and `high` only if `below`.
static Expression between(std::string_view low, std::string_view high,
                          bool above, bool below) {
  auto count = static_cast<uint32_t>(low.size());
  if (count == 0 || (!above && !below))
    return digits(count, count);
  char first = above ? low[0] : '0', last = below ? high[0] : '9';
  auto rest = [&](bool stillAbove, bool stillBelow) {
    return between(low.substr(1), high.substr(1), stillAbove, stillBelow);
  };
  if (first == last)
    return sequence({digit(first, last), rest(above, below)});
  std::vector<Expression> parts;
  if (above)
    parts.push_back(sequence({digit(first, first), rest(true, false)}));
  if (below)
    parts.push_back(sequence({digit(last, last), rest(false, true)}));
  first = static_cast<char>(first + above);
  last = static_cast<char>(last - below);
  if (first <= last)
    parts.push_back(sequence({digit(first, last), rest(false, false)}));
  return choice(std::move(parts));
}

/// Whole numbers from `low` to `high`, or without end.
static Expression wholesBetween(uint64_t low, std::optional<uint64_t> high) {
  std::vector<Expression> parts;
  if (high && *high < low)
    return choice({});
  std::string first = std::to_string(low),
              last = high ? std::to_string(*high) : "";
  size_t most = high ? last.size() : first.size();
  for (size_t count = first.size(); count <= most; ++count) {
    std::string from = count == first.size()
                           ? first
                           : "1" + std::string(count - 1, '0'),
                to = high && count == most ? last : std::string(count, '9');
    parts.push_back(between(from, to, true, true));
  }
  if (!high)
    parts.push_back(
        sequence({digit('1', '9'),
                  digits(static_cast<uint32_t>(most), Expression::unbounded)}));
  return choice(std::move(parts));
}

namespace {
/// A bound of a fraction: its digits that are not compared yet.
struct Edge {
  std::string_view digits;
  bool exclusive;

  char first() const { return digits.empty() ? '0' : digits[0]; }
  Edge rest() const {
    return {digits.substr(digits.empty() ? 0 : 1), exclusive};
  }
  /// Whether the rest of the bound is 0.
  bool isZero() const { return digits.empty(); }
};
} // namespace

using OptionalEdge = std::optional<Edge>;

static Expression fraction(const OptionalEdge &low, const OptionalEdge &high,
                           bool mayBeEmpty);

/// Fractions whose first digit is `first` to `last`.
static Expression fractionFrom(char first, char last, const OptionalEdge &low,
                               const OptionalEdge &high) {
  return sequence({digit(first, last), fraction(low, high, true)});
}

/// The digits of a fraction between the bounds; "" stands for 0.
static Expression fraction(const OptionalEdge &low, const OptionalEdge &high,
                           bool mayBeEmpty) {
  if (low && low->isZero() && !low->exclusive)
    return fraction(std::nullopt, high, mayBeEmpty);
  Expression zeros = repeat(digit('0', '0'), 0, Expression::unbounded);
  uint32_t least = mayBeEmpty ? 0 : 1;
  if (!low && !high)
    return digits(least, Expression::unbounded);
  if (high && high->isZero()) {
    bool none = low || high->exclusive;
    return none ? choice({})
                : repeat(digit('0', '0'), least, Expression::unbounded);
  }
  if (low && low->isZero() && !high)
    return sequence(
        {std::move(zeros), digit('1', '9'), digits(0, Expression::unbounded)});
  char first = low ? low->first() : '0', last = high ? high->first() : '9';
  std::vector<Expression> parts;
  if (!low && mayBeEmpty)
    parts.push_back(sequence({}));
  if (low && high && first == last) {
    parts.push_back(fractionFrom(first, last, low->rest(), high->rest()));
    return choice(std::move(parts));
  }
  if (low)
    parts.push_back(fractionFrom(first, first, low->rest(), std::nullopt));
  if (high)
    parts.push_back(fractionFrom(last, last, std::nullopt, high->rest()));
  first = static_cast<char>(first + low.has_value());
  last = static_cast<char>(last - high.has_value());
  if (first <= last)
    parts.push_back(fractionFrom(first, last, std::nullopt, std::nullopt));
  return choice(std::move(parts));
}

/// The point and the digits after it, or nothing.
static Expression afterWhole(const OptionalEdge &low,
                             const OptionalEdge &high) {
  std::vector<Expression> parts;
  bool mayBeZero = !(low && (!low->isZero() || low->exclusive)) &&
                   !(high && high->isZero() && high->exclusive);
  if (mayBeZero)
    parts.push_back(sequence({}));
  parts.push_back(sequence({literal("."), fraction(low, high, false)}));
  return choice(std::move(parts));
}

// ---- Ranges ----------------------------------------------------------------

namespace {
/// Both bounds without their signs, for numbers of one sign: from `low`, which
/// may be 0, to `high` or without end.
struct Sizes {
  Bound low;
  std::optional<Bound> high;
};
} // namespace

/// The part of a range that has numbers of this sign; nothing if it has none.
static std::optional<Sizes> sizesOf(const Range &range, bool negative) {
  std::optional<Bound> low = negative ? range.high : range.low,
                       high = negative ? range.low : range.high;
  auto isOutside = [&](const Bound &bound) {
    return bound.value.negative != negative && !bound.value.isZero();
  };
  if (high && (isOutside(*high) || (high->value.isZero() && negative)))
    return std::nullopt;
  Sizes sizes;
  if (low && !isOutside(*low))
    sizes.low = *low;
  sizes.high = high;
  return sizes;
}

/// Whole numbers among the sizes, from `least` on.
static Expression wholesIn(const Sizes &sizes, uint64_t least) {
  uint64_t low = sizes.low.value.whole;
  low += !sizes.low.value.fraction.empty() || sizes.low.exclusive;
  low = std::max(low, least);
  if (!sizes.high)
    return wholesBetween(low, std::nullopt);
  const Decimal &high = sizes.high->value;
  bool isLess = sizes.high->exclusive && high.fraction.empty();
  if (isLess && high.whole == 0)
    return choice({});
  return wholesBetween(low, high.whole - isLess);
}

static Expression decimalsIn(const Sizes &sizes) {
  Edge from{sizes.low.value.fraction, sizes.low.exclusive};
  uint64_t low = sizes.low.value.whole;
  auto numbers = [](Expression whole, const OptionalEdge &from,
                    const OptionalEdge &to) {
    return sequence({std::move(whole), afterWhole(from, to)});
  };
  auto just = [](uint64_t whole) { return literal(std::to_string(whole)); };
  if (!sizes.high)
    return choice({numbers(just(low), from, std::nullopt),
                   numbers(wholesBetween(low + 1, std::nullopt), std::nullopt,
                           std::nullopt)});
  uint64_t high = sizes.high->value.whole;
  Edge to{sizes.high->value.fraction, sizes.high->exclusive};
  if (low > high)
    return choice({});
  if (low == high)
    return from.digits > to.digits ? choice({}) : numbers(just(low), from, to);
  std::vector<Expression> parts = {numbers(just(low), from, std::nullopt),
                                   numbers(just(high), std::nullopt, to)};
  if (high > low + 1)
    parts.push_back(
        numbers(wholesBetween(low + 1, high - 1), std::nullopt, std::nullopt));
  return choice(std::move(parts));
}

template <typename Make>
static Expression bothSigns(const Range &range, Make make) {
  std::vector<Expression> parts;
  if (auto sizes = sizesOf(range, false))
    parts.push_back(make(*sizes, false));
  if (auto sizes = sizesOf(range, true))
    parts.push_back(sequence({literal("-"), make(*sizes, true)}));
  return choice(std::move(parts));
}

Expression integersIn(const Range &range) {
  return bothSigns(range, [](const Sizes &sizes, bool negative) {
    return wholesIn(sizes, negative);
  });
}

Expression numbersIn(const Range &range) {
  return bothSigns(range,
                   [](const Sizes &sizes, bool) { return decimalsIn(sizes); });
}

} // namespace cria::grammar
