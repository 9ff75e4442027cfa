#include "tools/emulator/translate/Emitter.h"

#include "tools/emulator/run/Thread.h"

namespace cria::emulator {

Emitter::Emitter(KernelContext &kernel, const Function &source,
                 llvm::Function *target)
    : builder(target->getContext()), kernel(kernel), source(source),
      target(target) {}

void Emitter::fail(const llvm::Twine &message) {
  if (error)
    return;
  if (instruction)
    error =
        Error{instruction->line, (message + ": " + instruction->text).str()};
  else
    error = Error{source.line, message.str()};
}

std::optional<Error> Emitter::translate() {
  entry = newBlock("entry");
  llvm::BasicBlock *first = newBlock();
  builder.SetInsertPoint(entry);
  declare();
  builder.SetInsertPoint(first);
  if (kernel.layout.recurses && !source.isEntry)
    checkStack();
  body();
  if (!error)
    closeBlocks();
  llvm::IRBuilder<>(entry).CreateBr(first);
  return error;
}

/// Gives memory to the function's parameters and variables.
void Emitter::declare() {
  llvm::Type *byte = builder.getInt8Ty();
  unsigned argument = 1;
  if (source.isEntry) {
    for (const Parameter &parameter : source.parameters)
      parameters[parameter.name] =
          builder.CreateConstGEP1_64(byte, target->getArg(1), parameter.offset);
  } else {
    for (auto *list : {&source.results, &source.parameters})
      for (const Parameter &parameter : *list)
        parameters[parameter.name] = target->getArg(argument++);
  }
  for (const Variable &variable : source.variables)
    if (variable.space == "local" || variable.space == "param")
      locals[&variable] = slot(llvm::ArrayType::get(byte, variable.size),
                               unsigned(std::max<uint64_t>(variable.align, 8)));
  for (int i = 0; i < source.labelCount; ++i)
    labels.push_back(newBlock());
}

/// Stops the thread if a recursion leaves too little of its stack.
void Emitter::checkStack() {
  llvm::BasicBlock *bad = newBlock(), *good = newBlock();
  llvm::Value *frame =
      builder.CreateIntrinsic(llvm::Intrinsic::frameaddress,
                              {builder.getPtrTy()}, {builder.getInt32(0)});
  llvm::Value *limit =
      threadField(offsetof(Thread, stackLimit), builder.getPtrTy());
  builder.CreateCondBr(builder.CreateICmpULT(frame, limit), bad, good);
  builder.SetInsertPoint(bad);
  call("emulatorStackOverflow", builder.getVoidTy(),
       {builder.getInt32(source.line)});
  builder.CreateUnreachable();
  builder.SetInsertPoint(good);
}

void Emitter::body() {
  for (const Instruction &next : source.body) {
    emit(next);
    if (error)
      return;
  }
  instruction = nullptr;
  if (!builder.GetInsertBlock()->getTerminator())
    finish();
}

void Emitter::emit(const Instruction &next) {
  instruction = &next;
  for (int label : next.labels) {
    branch(labels[label]);
    builder.SetInsertPoint(labels[label]);
    passed.insert(labels[label]);
  }
  if (builder.GetInsertBlock()->getTerminator())
    builder.SetInsertPoint(newBlock());
  countInstruction();
  next.predicate.empty() ? emitOne() : emitPredicated();
}

void Emitter::emitPredicated() {
  Operand predicate;
  predicate.name = instruction->predicate;
  predicate.negated = instruction->predicateNegated;
  llvm::Value *condition = read(predicate, 1);
  endSegment();
  llvm::BasicBlock *then = newBlock(), *after = newBlock();
  llvm::BasicBlock *otherwise = kernel.requests ? newBlock() : after;
  builder.CreateCondBr(condition, then, otherwise);
  builder.SetInsertPoint(then);
  size_t site = kernel.requests ? kernel.countPlan->sites.size() : 0;
  emitOne();
  branch(after);
  if (kernel.requests)
    countSwitchedOff(otherwise, site, after);
  builder.SetInsertPoint(after);
}

void Emitter::emitOne() {
  auto found = matchForm(*instruction, kernel.capability);
  if (auto *message = std::get_if<std::string>(&found))
    return fail(*message);
  const Match &match = std::get<Match>(found);
  asked = match.isHint;
  match.form->emit(*this);
  checkModifiers(match);
  kernel.used.insert(match.form);
}

void Emitter::checkModifiers(const Match &) {
  for (size_t i = 0; i < asked.size(); ++i)
    if (!asked[i])
      fail("modifier '." + instruction->modifiers[i] +
           "' is not implemented here");
}

/// Closes blocks that no branch reaches (a label after the last return).
void Emitter::closeBlocks() {
  for (llvm::BasicBlock &block : *target)
    if (!block.getTerminator() && &block != entry)
      llvm::IRBuilder<>(&block).CreateUnreachable();
}

bool Emitter::has(llvm::StringRef modifier) {
  for (size_t i = 0; i < asked.size(); ++i)
    if (instruction->modifiers[i] == modifier) {
      asked[i] = true;
      return true;
    }
  return false;
}

llvm::StringRef Emitter::oneOf(llvm::StringRef modifiers) {
  llvm::SmallVector<llvm::StringRef> words;
  modifiers.split(words, '|');
  for (llvm::StringRef word : words)
    if (has(word))
      return word;
  return "";
}

Type Emitter::type() {
  for (size_t i = 0; i < asked.size(); ++i)
    if (!asked[i])
      if (auto found = typeNamed(instruction->modifiers[i])) {
        asked[i] = true;
        return *found;
      }
  fail("expected a type");
  return {Type::Bits, 32};
}

llvm::StringRef Emitter::space() {
  for (size_t i = 0; i < asked.size(); ++i) {
    llvm::StringRef modifier = instruction->modifiers[i];
    llvm::StringRef base = modifier.split("::").first;
    for (auto name : {"global", "shared", "local", "param", "const"})
      if (base == name) {
        asked[i] = true;
        return base;
      }
  }
  return "";
}

Shape Emitter::shape() {
  for (size_t i = 0; i < asked.size(); ++i)
    if (auto found = shapeNamed(instruction->modifiers[i])) {
      asked[i] = true;
      return *found;
    }
  fail("expected a shape");
  return {};
}

bool Emitter::scopeIsBlock() { return oneOf("cta|cluster|gpu|sys") == "cta"; }

llvm::BasicBlock *Emitter::label(llvm::StringRef name) {
  if (auto *found = source.lookUp(&Scope::labels, instruction->scope, name))
    return labels[*found];
  fail("unknown label '" + name + "'");
  return newBlock();
}

const std::vector<std::string> *Emitter::branchTargets(llvm::StringRef name) {
  auto *found = source.lookUp(&Scope::targets, instruction->scope, name);
  if (!found)
    fail("unknown branch targets '" + name + "'");
  return found;
}

void Emitter::branch(llvm::BasicBlock *to) {
  if (builder.GetInsertBlock()->getTerminator())
    return;
  endSegment();
  builder.CreateBr(to);
}

bool Emitter::isBackward(llvm::StringRef name) {
  return passed.count(label(name)) != 0;
}

void Emitter::countRound() {
  constexpr uint32_t kRounds = 1 << 20;
  if (!kernel.checks)
    return;
  llvm::Type *type = builder.getInt32Ty();
  if (!roundSlot) {
    roundSlot = slot(type, 4);
    llvm::IRBuilder<>(entry).CreateStore(builder.getInt32(kRounds), roundSlot);
  }
  llvm::BasicBlock *ask = newBlock(), *go = newBlock();
  llvm::Value *left = builder.CreateSub(builder.CreateLoad(type, roundSlot),
                                        builder.getInt32(1));
  builder.CreateStore(left, roundSlot);
  builder.CreateCondBr(builder.CreateICmpEQ(left, builder.getInt32(0)), ask,
                       go);
  builder.SetInsertPoint(ask);
  builder.CreateStore(builder.getInt32(kRounds), roundSlot);
  call("emulatorRounds", builder.getVoidTy(), {line()});
  builder.CreateBr(go);
  builder.SetInsertPoint(go);
}

void Emitter::finish() {
  endSegment();
  builder.CreateRetVoid();
}

llvm::BasicBlock *Emitter::newBlock(const char *name) {
  return llvm::BasicBlock::Create(builder.getContext(), name, target);
}

} // namespace cria::emulator
