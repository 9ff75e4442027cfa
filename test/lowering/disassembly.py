"""What nvdisasm's listing of a kernel says of its main loop.

PTX does not show what runs: ptxas moves loads to where their registers are read. So
figures come from SASS, of the main loops of a kernel:

  in flight      how many 16-byte loads of a lane are on their way from memory, on
                 average over time, if each takes LATENCY cycles and any other
                 instruction one. In order, as a warp runs: an instruction waits for
                 the loads whose registers it reads, and DEPBAR for groups of
                 asynchronous copies. By Little's law the average is the 16-byte
                 loads of a turn times LATENCY over the turn's cycles:

                   ld a, ld b, use a, use b    2     both arrive in one LATENCY
                   ld a, use a, ld b, use b    1     one after the other

                 Only loads of what is streamed count: weights and caches, which no
                 block has read before. The input of a product is read by all, and
                 takes CACHED cycles. A load streams if a pointer to a weight or a
                 cache, a parameter of the kernel, flows into its address.
  instructions   of a turn, for each MMA in it

A loop is what lies between a label and the last branch back to it. The main loop of a
kernel is the one with the most MMAs or, in a kernel without, the most bytes streamed,
those of loops within not counted: these are in loops of their own. A kernel of several
products (q, k, v) has a main loop for each weight: of those that have more than half
of the most, the worst figure counts. Of loops over one weight the first counts, where
ptxas or the schedule has made another of what remains of a row. A kernel that streams
without a loop is one turn.
"""

import dataclasses
import functools
import re

LATENCY = 1000  # cycles to memory under load: 0.6 us at 1.7 GHz
CACHED = 100  # to the caches, between the first's 35 and the second's 250
TURNS = 32  # of a loop that are simulated; half of them to fill its pipeline

# Where a chip keeps parameters, in constant bank 0.
PARAMETERS = {"sm_80": 0x160, "sm_90": 0x210, "sm_90a": 0x210, "sm_100": 0x380}
MMA = {"HMMA", "IMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "UTCHMMA", "UTCIMMA"}
# Copies that a thread begins for its block: their bytes are in a register. In a kernel
# that multiplies they fill a ring, and no lane waits for what it loads.
UNKNOWN = {"UBLKCP", "UTMALDG", "UBLKPF"}
LOADS = {"LDG", "LDS", "LDL", "LD", "LDC", "LDCU", "ULDC", "LDSM"}
FROM_MEMORY = LOADS - {"LDC", "LDCU", "ULDC"}
WITHOUT_RESULT = re.compile(
    r"(ST[GSL]?|RED|BRA|BRX|EXIT|RET|BSSY|BSYNC|BAR|NOP|MEMBAR|DEPBAR|LDGDEPBAR"
    r"|LDGSTS|ERRBAR|CCTL|WARPSYNC|[A-Z]*SETP2?|PLOP3|UPLOP3|FCHK|R2P)(\.|$)"
)
LINE = re.compile(
    r"^\s+/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);"
)
REGISTER = re.compile(r"\b(U?R)(\d+)(\.64)?")
CONSTANT = re.compile(r"c\[0x0\]\[(U?R\d+\+)?0x([0-9a-f]+)\]")
LABEL = re.compile(r"`\((\.L_x_\d+)\)")
UNIFORM = 1000  # number of UR0


@dataclasses.dataclass
class Instruction:
    guard: str  # the predicate, "" without
    op: str  # the name without modifiers
    modifiers: list
    operands: list
    label: str  # of a branch
    reads: list = dataclasses.field(default_factory=list)  # numbers of registers
    writes: list = dataclasses.field(default_factory=list)
    constant: int = None  # offset in bank 0
    indexed: bool = False  # that and more, by a register
    streams: int = 0  # mask of the parameters that a load's address is of

    @property
    def bytes(self):
        """What a load, or a copy, brings to a lane."""
        for modifier in self.modifiers:
            if modifier in ("128", "64"):
                return int(modifier) // 8
            if modifier in ("U8", "S8", "U16", "S16"):
                return int(modifier[1:]) // 8
        return 4


def registers(operand, width=1):
    """Numbers of the registers that an operand names, the first `width` long."""
    numbers = []
    for kind, number, pair in REGISTER.findall(operand):
        first = int(number) + (UNIFORM if kind == "UR" else 0)
        numbers += range(first, first + (2 if pair else width))
    return numbers


def widths(op, modifiers):
    """Registers of the result and of each source."""
    if op in MMA:
        return 4, [4, 2, 4]
    if op == "LDSM":
        return int(modifiers[-1]), [1]
    if "128" in modifiers or "64" in modifiers:
        width = 4 if "128" in modifiers else 2
        return width, [width] * 4
    if "WIDE" in modifiers:
        return 2, [1, 1, 2]
    if op in ("FFMA2", "FADD2", "FMUL2") or op == "CS2R" and "32" not in modifiers:
        return 2, [2] * 3
    return 1, [1] * 8


def parse(line):
    """The instruction of a line, or None."""
    match = LINE.match(line)
    if not match:
        return None
    guard, name, rest = match.groups()
    op, *modifiers = name.split(".")
    operands = [part.strip() for part in rest.split(",")] if rest.strip() else []
    label, constant = LABEL.search(rest), CONSTANT.search(rest)
    result = Instruction(
        guard or "", op, modifiers, operands, label[1] if label else ""
    )
    if constant:
        result.constant, result.indexed = int(constant[2], 16), bool(constant[1])
    wide, sources = widths(op, modifiers)
    values = [part for part in operands if not re.match(r"!?U?P(T|\d)\b", part)]
    if values and not WITHOUT_RESULT.match(op) and "[" not in values[0]:
        result.writes = registers(values.pop(0), wide)
    for index, part in enumerate(values):
        width = 1 if "[" in part else sources[min(index, len(sources) - 1)]
        result.reads += registers(part, width)
    return result


class Kernel:
    """Instructions of a kernel, and where its labels point."""

    def __init__(self, lines):
        self.code, self.labels = [], {}
        for line in lines:
            if label := re.match(r"(\.L_x_\d+):", line):
                self.labels[label[1]] = len(self.code)
            elif instruction := parse(line):
                self.code.append(instruction)

    def target(self, instruction):
        """Where a branch goes, or None: BSSY only names where paths meet."""
        if instruction.op == "BSSY":
            return None
        return self.labels.get(instruction.label)

    def successors(self, index):
        instruction = self.code[index]
        target = self.target(instruction)
        result = [] if target is None else [target]
        always = not instruction.guard and len(instruction.operands) == 1
        ends = instruction.op in ("EXIT", "RET") and not instruction.guard
        if not ends and not (instruction.op == "BRA" and always):
            result.append(index + 1)
        return [index for index in result if index < len(self.code)]

    @functools.cached_property
    def loops(self):
        """(first, last) instruction of each loop. What ptxas puts behind the kernel's
        end, such as a second look at a barrier, and comes back from there, is none."""
        last, end = {}, -1
        for index, instruction in enumerate(self.code):
            if instruction.op == "EXIT" and not instruction.guard:
                end = index
            target = self.target(instruction)
            if target is not None and end < target < index:
                last[target] = index
        return sorted(last.items())


def kernels(listing):
    """{name: Kernel} of what `nvdisasm -c` prints."""
    parts = re.split(r"^\s*\.section\s+\.text\.(\w+),.*$", listing, flags=re.MULTILINE)
    return {
        name: Kernel(text.splitlines()) for name, text in zip(parts[1::2], parts[2::2])
    }


def flow(instruction, pointers, parameters):
    """Which parameters flow into what an instruction writes: a mask of bits for each
    register of `pointers`. `parameters` has a bit for each word of bank 0."""
    mask = 0
    if instruction.op not in FROM_MEMORY:
        for register in instruction.reads:
            mask |= pointers.get(register, 0)
    for index, register in enumerate(instruction.writes):
        bits = mask
        if instruction.constant is not None:
            first = instruction.constant // 4
            word = first + (index if len(instruction.writes) > 1 else 0)
            bits |= parameters.get(word, 0)
            if instruction.indexed:
                bits |= sum({bit for at, bit in parameters.items() if at >= first})
        if instruction.guard:
            bits |= pointers.get(register, 0)
        pointers[register] = bits


def mark_streams(kernel, parameters, streamed):
    """Sets `streams` of loads from the parameters of the mask `streamed`: data flow
    over the branches, to a fixed point."""
    code = kernel.code
    starts = {0, *kernel.labels.values()}
    starts.update(i + 1 for i, each in enumerate(code) if each.label)
    entering, work = {0: {}}, [0]
    while work:
        index = work.pop()
        pointers = dict(entering[index])
        while True:
            instruction = code[index]
            if instruction.op in ("LDG", "LDGSTS"):
                reads = instruction.reads
                if instruction.op == "LDGSTS":
                    reads = registers(instruction.operands[1])
                for register in reads:
                    instruction.streams |= pointers.get(register, 0) & streamed
            flow(instruction, pointers, parameters)
            following = kernel.successors(index)
            if following != [index + 1] or index + 1 in starts:
                break
            index += 1
        for target in following:
            if merge(entering, target, pointers):
                work.append(target)


def merge(entering, target, pointers):
    """Adds what a path brings to an instruction; whether that is news."""
    if target not in entering:
        entering[target] = dict(pointers)
        return True
    known, news = entering[target], False
    for register, mask in pointers.items():
        if mask & ~known.get(register, 0):
            known[register] = known.get(register, 0) | mask
            news = True
    return news


def turns(code, first, last, threads):
    """Turns of a loop in another: counted where threads stride over a block's work,
    from a thread's number; else 1."""
    strides = {
        each.reads[0]
        for each in code[first:last]
        if each.op in ("IADD3", "VIADD", "IADD")
        and len(each.reads) == 1
        and hex(threads) in each.operands
    }
    for test in reversed(code[first:last]):
        if test.op == "ISETP" and test.operands[0] == code[last].guard.lstrip("!"):
            bound = re.fullmatch("0x[0-9a-f]+", test.operands[3])
            known = bound and strides.intersection(test.reads)
            return int(bound[0], 16) // threads + 1 if known else 1
    return 1


def unrolled(kernel, first, last, threads):
    """Instructions of a turn of a loop, those of loops in it as often as they run."""
    code, result, index = kernel.code, [], first
    inner = dict(loop for loop in kernel.loops if loop != (first, last))
    while index <= last:
        end = inner.get(index, last + 1)
        if index > first and end <= last:
            count = turns(code, index, end, threads)
            result += unrolled(kernel, index, end, threads) * count
            index = end
        else:
            result.append(code[index])
        index += 1
    return result


class Clock:
    """A warp that runs instructions in order."""

    def __init__(self):
        self.now = 0
        self.pending = {}  # register: when its load arrives
        self.copies, self.groups = 0, []  # when copies arrive, those committed
        self.streamed = 0  # bytes

    def run(self, instruction):
        waits = instruction.reads + ([] if instruction.guard else instruction.writes)
        for register in waits:
            self.now = max(self.now, self.pending.pop(register, 0))
        arrival = self.now + (LATENCY if instruction.streams else CACHED)
        if instruction.op == "LDG":
            self.pending.update((register, arrival) for register in instruction.writes)
        elif instruction.op == "LDGSTS":
            self.copies = max(self.copies, arrival)
        elif instruction.op == "LDGDEPBAR":
            self.groups.append(self.copies)
        elif instruction.op == "DEPBAR" and instruction.operands[0] == "SB0":
            allowed = int(instruction.operands[1], 16)
            done = self.groups[: len(self.groups) - allowed]
            self.now = max([self.now, *done])
        if instruction.streams:
            self.streamed += instruction.bytes
        self.now += 1


def in_flight(turn, is_loop):
    """16-byte loads on their way, on average."""
    clock = Clock()
    if is_loop:
        for instruction in turn * (TURNS // 2):
            clock.run(instruction)
    start, before = clock.now, clock.streamed
    for instruction in turn * (TURNS // 2 if is_loop else 1):
        clock.run(instruction)
    if not is_loop:
        clock.now = max([clock.now, *clock.pending.values()])
    return (clock.streamed - before) / 16 * LATENCY / (clock.now - start)


def weight(kernel, loop, count):
    """Sum of `count` over a loop, but not over loops in it."""
    first, last = loop
    within = [(a, b) for a, b in kernel.loops if first <= a and b <= last]
    return sum(
        count(kernel.code[index])
        for index in range(first, last + 1)
        if not any((a, b) != loop and a <= index <= b for a, b in within)
    )


def waits(kernel, loop):
    """The loop, or the one around it where that waits for the copies of this."""
    code = kernel.code
    copies = [each for each in code[loop[0] : loop[1]] if each.op == "LDGSTS"]
    if not copies or any(each.op == "DEPBAR" for each in code[loop[0] : loop[1]]):
        return loop
    around = [
        each
        for each in kernel.loops
        if each != loop and each[0] <= loop[0] and loop[1] <= each[1]
    ]
    if not around:
        return loop
    return waits(kernel, max(around))


def main_loops(kernel, count):
    """The first loop with the most of `count` over each weight, of those with more than
    half of the most of all."""
    best = {}
    for loop in kernel.loops:
        amount, around = weight(kernel, loop, count), waits(kernel, loop)
        code = kernel.code[around[0] : around[1]]
        over = functools.reduce(int.__or__, (each.streams for each in code), 0)
        if amount > best.get(over, (0, None))[0]:
            best[over] = amount, around
    most = max((amount for amount, _ in best.values()), default=0)
    return sorted({loop for amount, loop in best.values() if amount > most / 2})


def figures(kernel, threads, parameters, streamed):
    """{"loads": in flight, "mma": instructions for each MMA}, None where a kernel has
    neither. `parameters`: which (a bit) lies at each word of bank 0."""
    multiplies = any(each.op in MMA for each in kernel.code)
    for each in kernel.code:
        unknown = each.op in UNKNOWN and not multiplies
        if unknown or "256" in each.modifiers and each.op not in UNKNOWN:
            name = ".".join([each.op, *each.modifiers])
            raise ValueError(f"{name} is not known to disassembly.py")
    mark_streams(kernel, parameters, streamed)

    def count(each):
        return each.op in MMA if multiplies else bool(each.streams) * each.bytes

    result = {"loads": None, "mma": None}
    loops = main_loops(kernel, count)
    for first, last in loops or [(0, len(kernel.code) - 1)]:
        turn = unrolled(kernel, first, last, threads) if loops else kernel.code
        mmas = sum(each.op in MMA for each in turn)
        if mmas:
            ratio = round(len(turn) / mmas, 2)
            result["mma"] = max(ratio, result["mma"] or 0)
        if any(each.streams for each in turn):
            loads = round(in_flight(turn, bool(loops)), 2)
            result["loads"] = min(loads, result["loads"] or loads)
    return result
