// Video instructions. An operand may have a selector of its parts: `%r1.b3`,
// for several parts at once `%r1.b3210`.
#include "tools/emulator/run/Video.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::Value;

/// An operand without its selector, and the selector: "" if there is none.
std::pair<Operand, std::string> split(const Operand &operand) {
  auto [name, selector] = llvm::StringRef(operand.name).rsplit('.');
  Operand rest = operand;
  if (operand.kind == Operand::Name && !selector.empty())
    rest.name = name.str();
  return {rest, selector.str()};
}

/// `b2`, `h10`: the kind of part, and a digit for each part, the highest first.
/// None if it is no such selector.
std::optional<VideoSelector> selectorOf(llvm::StringRef text, size_t parts) {
  VideoSelector selector;
  selector.bits = text.starts_with("b") ? 8 : 16;
  if (!text.consume_front("b") && !text.consume_front("h"))
    return std::nullopt;
  unsigned most = (parts == 1 ? 32 : 64) / selector.bits;
  if (text.size() != parts)
    return std::nullopt;
  for (char digit : text) {
    if (!llvm::isDigit(digit) || unsigned(digit - '0') >= most)
      return std::nullopt;
    selector.places = selector.places << 4 | unsigned(digit - '0');
  }
  return selector;
}

/// `b20`, `h1`: a bit for each part of the result that is computed. 0 if it is
/// no such mask.
uint32_t maskOf(llvm::StringRef text, unsigned parts) {
  uint32_t mask = 0;
  if (!text.consume_front(parts == 4 ? "b" : "h"))
    return 0;
  for (char digit : text) {
    if (!llvm::isDigit(digit) || unsigned(digit - '0') >= parts)
      return 0;
    mask |= 1u << (digit - '0');
  }
  return mask;
}

VideoOp operation(llvm::StringRef opcode, llvm::StringRef comparison) {
  return llvm::StringSwitch<VideoOp>(comparison.empty() ? opcode.rtrim("24")
                                                        : comparison)
      .Case("vsub", VideoOp::Sub)
      .Case("vavrg", VideoOp::Average)
      .Case("vabsdiff", VideoOp::AbsoluteDifference)
      .Case("vmin", VideoOp::Min)
      .Case("vmax", VideoOp::Max)
      .Case("vshl", VideoOp::ShiftLeft)
      .Case("vshr", VideoOp::ShiftRight)
      .Case("eq", VideoOp::Equal)
      .Case("ne", VideoOp::NotEqual)
      .Case("lt", VideoOp::Less)
      .Case("le", VideoOp::LessEqual)
      .Case("gt", VideoOp::Greater)
      .Case("ge", VideoOp::GreaterEqual)
      .Default(VideoOp::Add);
}

/// The parts of an instruction whose name ends in a number.
unsigned partsOf(llvm::StringRef opcode) {
  return opcode.ends_with("4") ? 4 : opcode.ends_with("2") ? 2 : 1;
}

VideoConfig configOf(Emitter &e) {
  VideoConfig config;
  config.parts = partsOf(e.opcode());
  bool compares = e.opcode().starts_with("vset");
  config.op =
      operation(e.opcode(), compares ? e.oneOf("eq|ne|lt|le|gt|ge") : "");
  config.signedD = !compares && e.type().isSigned();
  config.signedA = e.type().isSigned();
  config.signedB = e.type().isSigned();
  config.saturates = e.has("sat");
  config.wraps = e.oneOf("wrap|clamp") == "wrap";
  config.second = llvm::StringSwitch<VideoSecond>(e.oneOf("add|min|max"))
                      .Case("add", VideoSecond::Add)
                      .Case("min", VideoSecond::Min)
                      .Case("max", VideoSecond::Max)
                      .Default(VideoSecond::Merge);
  return config;
}

/// One operation: d.dsel, a.asel, b.bsel, c.
void emitScalar(Emitter &e) {
  auto &b = e.builder;
  VideoConfig config = configOf(e);
  auto [d, selectD] = split(e.operand(0));
  Value *values[2];
  VideoSelector selectors[3];
  for (unsigned i = 0; i < 2; ++i) {
    auto [operand, text] = split(e.operand(1 + i));
    auto found = text.empty() ? VideoSelector() : selectorOf(text, 1);
    if (!found)
      return e.fail("unknown selector '." + text + "'");
    selectors[i] = *found;
    selectors[i].places += i * 32 / selectors[i].bits; // of {b, a}
    values[i] = e.read(operand, 32);
  }
  bool merges = !selectD.empty(), hasC = e.operandCount() > 3;
  auto found = merges ? selectorOf(selectD, 1) : VideoSelector();
  if (!found || hasC != (merges || config.second != VideoSecond::Merge))
    return e.fail("expected other operands");
  selectors[2] = *found;
  Value *c = hasC ? e.read32(3) : b.getInt32(0);
  e.write(
      d, e.call("emulatorVideo", b.getInt32Ty(),
                {b.getInt32(config.packed()), b.getInt32(selectors[0].packed()),
                 b.getInt32(selectors[1].packed()),
                 b.getInt32(selectors[2].packed()), b.getInt32(1), values[0],
                 values[1], c}));
}

/// Several operations at once: d.mask, a.asel, b.bsel, c.
void emitParts(Emitter &e) {
  auto &b = e.builder;
  VideoConfig config = configOf(e);
  bool four = config.parts == 4;
  auto select = [&](std::string text, const char *usual) {
    auto found = selectorOf(text.empty() ? usual : text, config.parts);
    if (!found || found->bits != 32 / config.parts) {
      e.fail("unknown selector '." + text + "'");
      return VideoSelector();
    }
    return *found;
  };
  auto [d, mask] = split(e.operand(0));
  auto [a, selectA] = split(e.operand(1));
  auto [other, selectB] = split(e.operand(2));
  const char *all = four ? "b3210" : "h10";
  uint32_t bits = maskOf(mask.empty() ? all : mask, config.parts);
  if (!bits)
    e.fail("unknown mask '." + mask + "'");
  VideoSelector ofA = select(selectA, all),
                ofB = select(selectB, four ? "b7654" : "h32"),
                ofD = select(all, all);
  e.write(d, e.call("emulatorVideo", b.getInt32Ty(),
                    {b.getInt32(config.packed()), b.getInt32(ofA.packed()),
                     b.getInt32(ofB.packed()), b.getInt32(ofD.packed()),
                     b.getInt32(bits), e.read(a, 32), e.read(other, 32),
                     e.read32(3)}));
}

#define TYPES "u32|s32 u32|s32 u32|s32 "
#define COMPARE "u32|s32 u32|s32 eq|ne|lt|le|gt|ge "

constexpr Form kForms[] = {
    {"vadd", TYPES "sat? add|min|max?", "dsss?", emitScalar},
    {"vsub", TYPES "sat? add|min|max?", "dsss?", emitScalar},
    {"vabsdiff", TYPES "sat? add|min|max?", "dsss?", emitScalar},
    {"vmin", TYPES "sat? add|min|max?", "dsss?", emitScalar},
    {"vmax", TYPES "sat? add|min|max?", "dsss?", emitScalar},
    {"vshl", "u32|s32 u32|s32 u32 sat? clamp|wrap add|min|max?", "dsss?",
     emitScalar},
    {"vshr", "u32|s32 u32|s32 u32 sat? clamp|wrap add|min|max?", "dsss?",
     emitScalar},
    {"vset", COMPARE "add|min|max?", "dsss?", emitScalar},
    {"vadd2", TYPES "sat|add?", "dsss", emitParts},
    {"vadd4", TYPES "sat|add?", "dsss", emitParts},
    {"vsub2", TYPES "sat|add?", "dsss", emitParts},
    {"vsub4", TYPES "sat|add?", "dsss", emitParts},
    {"vavrg2", TYPES "sat|add?", "dsss", emitParts},
    {"vavrg4", TYPES "sat|add?", "dsss", emitParts},
    {"vabsdiff2", TYPES "sat|add?", "dsss", emitParts},
    {"vabsdiff4", TYPES "sat|add?", "dsss", emitParts},
    {"vmin2", TYPES "sat|add?", "dsss", emitParts},
    {"vmin4", TYPES "sat|add?", "dsss", emitParts},
    {"vmax2", TYPES "sat|add?", "dsss", emitParts},
    {"vmax4", TYPES "sat|add?", "dsss", emitParts},
    {"vset2", COMPARE "add?", "dsss", emitParts},
    {"vset4", COMPARE "add?", "dsss", emitParts},
};

} // namespace

llvm::ArrayRef<Form> videoForms() { return kForms; }

} // namespace cria::emulator
