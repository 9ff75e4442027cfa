"""grammar_schemas.py LIBRARY SCRATCH [COUNT]: JSON Schema as grammars, beside jsonschema.

COUNT instances are drawn for each schema, some of them wrong. The grammar must take those
that jsonschema finds valid, spelled without blanks and with properties in the schema's
order, and no others. Texts that are drawn from masks, as by a model that knows nothing,
must be valid.
"""

import json
import pathlib
import random
import sys

import jsonschema
from tokenizers import pre_tokenizers

from libcria import Failure, Grammar, Library, Matcher, Tokenizer

NAME = {"type": "string", "minLength": 1, "maxLength": 5}
NODE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                "right": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["value", "left"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}
WEATHER = {  # as OpenAI's examples of function calling have it
    "type": "object",
    "properties": {
        "location": {
            "type": "string",
            "description": "The city and state, e.g. San Francisco, CA",
        },
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
    },
    "required": ["location", "unit"],
    "additionalProperties": False,
}
STEPS = {  # structured outputs: a list of steps by $defs, as pydantic writes it
    "$defs": {
        "Step": {
            "title": "Step",
            "type": "object",
            "properties": {
                "explanation": {"title": "Explanation", "type": "string"},
                "output": {"title": "Output", "type": "string"},
            },
            "required": ["explanation", "output"],
            "additionalProperties": False,
        }
    },
    "title": "MathReasoning",
    "type": "object",
    "properties": {
        "steps": {"items": {"$ref": "#/$defs/Step"}, "type": "array"},
        "final_answer": {"type": "string"},
    },
    "required": ["steps", "final_answer"],
    "additionalProperties": False,
}


def tagged(tag, **properties):
    return {
        "type": "object",
        "properties": {"kind": {"const": tag}, **properties},
        "required": ["kind"],
    }


SCHEMAS = [
    True,
    {},
    {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "anything"},
    {"type": "object"},
    {"type": "array"},
    {"type": "string"},
    {"type": "number"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "null"},
    {"type": ["string", "null"]},
    {"type": ["integer", "array", "boolean"]},
    {"type": "integer", "minimum": 0},
    {"type": "integer", "minimum": -17, "maximum": 204},
    {"type": "integer", "exclusiveMinimum": -3, "exclusiveMaximum": 3},
    {"type": "integer", "maximum": -10},
    {"type": "integer", "minimum": 99, "maximum": 1001},
    {"type": "integer", "minimum": 0.5, "maximum": 2.5},
    {"type": "number", "minimum": 0},
    {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    {"type": "integer", "minimum": 10**19 - 3},
    {"type": "number", "minimum": -1.25, "maximum": 2.5},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": 0.125, "exclusiveMaximum": 0.25},
    {"type": "number", "maximum": -0.5},
    {"type": "number", "minimum": 3, "maximum": 12},
    {"minimum": 3},
    {"type": "string", "minLength": 2},
    {"type": "string", "maxLength": 3},
    {"type": "string", "minLength": 1, "maxLength": 1},
    {"maxLength": 2},
    {"type": "string", "pattern": "^[a-z]{2,4}$"},
    {"type": "string", "pattern": "[0-9]+"},
    {"type": "string", "pattern": "^a"},
    {"type": "string", "pattern": "b$|^c"},
    {"type": "string", "pattern": "^.{1,2000}$"},
    {"type": "string", "pattern": '^["\\\\a]+$'},
    {"type": "string", "pattern": "^(?:foo|bar)-\\d{3}$"},
    {"type": "string", "pattern": "^[^x]?.é$"},
    {"enum": ["red", "green", "blue"]},
    {"enum": ["naïve", "日本語", "😀", 'a"b', "a\\b", "tab\t"]},
    {"enum": [1, 2.5, -3, None, True, "1", [1, 2], {"a": 1}]},
    {"type": "string", "enum": ["a", "ab", "abc", "b"]},
    {"type": ["integer", "null"], "enum": [1, "a", None]},
    {"type": "integer", "enum": [1.0, 1e2, 1.5, 12345678901234567890123, 1, 1]},
    {"enum": [9007199254740993, 0.5, "0"], "allOf": [{"enum": [9007199254740992, 0.5]}]},
    {"enum": [{"a": 1, "b": [2]}, [1]], "allOf": [{"enum": [{"b": [2], "a": 1}]}]},
    {"const": {"x": [1, {"y": None}]}},
    {"const": "only"},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2},
    {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "minItems": 2, "maxItems": 2},
    {"type": "array", "maxItems": 0},
    {"type": "array", "items": False},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
    {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
        "items": False,
        "minItems": 1,
    },
    {
        "type": "array",
        "prefixItems": [{"type": "integer"}],
        "items": {"type": "boolean"},
        "minItems": 3,
        "maxItems": 4,
    },
    {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {
        "type": "object",
        "properties": {"a": NAME, "b": {"type": "integer"}, "c": {"type": "null"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "ab": {"type": "null"}, "": {}},
        "additionalProperties": {"type": "boolean"},
    },
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "additionalProperties": False},
    {"type": "object", "required": ["x", "y"]},
    {"type": "object", "properties": {"é": {"type": "integer"}, 'q"': {}}, "required": ["é"]},
    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]},
    {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 2}]},
    {"oneOf": [{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]},
    {"oneOf": [tagged("a", x={"type": "integer"}), tagged("b", y={"type": "string"})]},
    {"oneOf": [{"const": 1}, {"enum": [2, 3]}, {"type": "string"}]},
    {"allOf": [{"type": "integer"}, {"minimum": 2}, {"maximum": 9}]},
    {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"a": {"minimum": 3}, "b": {"type": "string"}}},
        ]
    },
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "additionalProperties": False,
    },
    {"$defs": {"n": {"type": "integer", "minimum": 1}}, "type": "array", "items": {"$ref": "#/$defs/n"}},
    {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "maximum": 7},
    {"definitions": {"a/b": {"type": "null"}}, "$ref": "#/definitions/a~1b"},
    {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
    {"type": "array", "items": {"$ref": "#"}},
    NODE,
    WEATHER,
    STEPS,
    {"type": "array", "items": WEATHER, "maxItems": 2, "uniqueItems": False},
    {"type": "object", "properties": {"tags": {"type": "array", "items": NAME, "minItems": 1}}, "x-order": 1},
    {"type": "object", "properties": {"deep": {"properties": {"deeper": {"type": "integer"}}}}},
]

# Formats, each with texts that it has and texts that it has not.
FORMATS = {
    "date": (["2024-02-29", "1999-12-31", "2000-02-29"], ["2023-02-29", "1900-02-29", "2024-13-01", "24-01-01", "2024-04-31"]),
    "time": (["00:00:00Z", "23:59:59.123+02:00"], ["24:00:00Z", "12:00Z", "12:00:00"]),
    "date-time": (["2024-05-06T07:08:09Z"], ["2024-05-06 07:08:09Z", "2024-05-06"]),
    "duration": (["P1D", "PT5M", "P1Y2M3DT4H5M6S", "P4W"], ["P", "PT", "5M", "P1S"]),
    "uuid": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000", "x"]),
    "email": (["a.b+c@example.org"], ["a@", "@b", "a b@c.d", ".a@b.c"]),
    "hostname": (["example.org", "a-b.c1"], ["-a.b", "a..b", ""]),
    "ipv4": (["1.2.3.4", "255.255.255.255"], ["256.1.1.1", "1.2.3", "01.2.3.4"]),
    "uri": (
        ["http://example.org/a/b?x=1&y=%20#top", "https://u:p@h:80", "mailto:a@b.c", "urn:x:y", "file:///etc"],
        ["example.org", "http://a b", "http://h:x", "http:%2", "1a:b", "a:b#c#d"],
    ),
    "ipv6": (["::", "::1", "1:2:3:4:5:6:7:8", "fe80::1:2", "::ffff:1.2.3.4"], ["1::2::3", "1:2:3", ":::", "12345::"]),
}

# Schemas that are refused, and what the message says.
REFUSED = [
    ("", "the schema: at byte"),
    ("[]", "the schema: expected a schema: an object, true or false, got an empty list"),
    ('{"type": "strin"}', "integer and number, got 'strin'"),
    ('{"items": {"type": [null]}}', "'items.type[0]': expected one of null, boolean"),
    ('{"maximum": 1e300}', "expected a number of at most 19 digits and 40 after the point, got 1e300"),
    ('{"enum": {"a": 1}}', "'enum': expected a list of values, got an object"),
    ('{"required": [true]}', "'required[0]': expected a name, got true"),
    ('{"pattern": []}', "'pattern': expected a string, got an empty list"),
    ('{"a": 1, "a": 2}', "duplicate key 'a'"),
    ("false", "no text matches"),
    ('{"type": "object", "properties": {"a": false}, "required": ["a"]}', "no text matches"),
    ('{"minLenght": 1}', "'minLenght': this keyword is not supported"),
    ('{"properties": {"a": {"not": {}}}}', "'properties.a.not': this keyword"),
    ('{"items": {"uniqueItems": true}}', "'items.uniqueItems': this keyword"),
    ('{"patternProperties": {}}', "'patternProperties'"),
    ('{"if": {}}', "'if'"),
    ('{"$ref": "#/x"}', "'$ref': '#/x' is nowhere"),
    ('{"$ref": "https://example.org/s"}', "'#/$defs/name', got 'https://example.org/s'"),
    ('{"$ref": "#"}', "this schema refers to itself, with no property or element in between"),
    ('{"allOf": [{"$ref": "#"}]}', "this schema refers to itself, with no"),
    ('{"anyOf": [{"$ref": "#"}, {"type": "null"}]}', "a branch of this schema refers to the schema, with no"),
    ('{"oneOf": [{"type": "integer"}, {"type": "number"}]}', "'oneOf': branches 0 and 1 may both match"),
    ('{"oneOf": [{"minimum": 1}, {"maxLength": 2}]}', "'oneOf': branches 0 and 1"),
    ('{"anyOf": []}', "'anyOf': expected a list of schemas, got an empty list"),
    ('{"type": "string", "pattern": "(?=a)"}', "'pattern': at character 2: looking around"),
    ('{"type": "string", "pattern": "a", "minLength": 2}', "'pattern': beside minLength"),
    ('{"type": "string", "pattern": "date", "format": "date"}', "'format': a second pattern"),
    (json.dumps({"type": "string", "pattern": "." * 4_000_000}), "takes too much work"),
    (json.dumps({"oneOf": [False] * 190_000}), "takes too much work"),
    (
        json.dumps(
            {
                "$defs": {"big": {"const": [0] * 90_000}},
                "properties": {
                    f"p{i}": {"$ref": "#/$defs/big", "type": "array"} for i in range(300)
                },
            }
        ),
        "takes too much work",
    ),
    ('{"type": "string", "format": "regex"}', "'format': 'regex' is not supported"),
    ('{"enum": ["a"], "minLength": 3}', "'minLength': beside enum"),
    ('{"minItems": -1}', "'minItems': expected a whole number of at least 0, got -1"),
    ('{"multipleOf": 3}', "'multipleOf'"),
    ('{"type": "string", "minLength": 1000000}', "needs more than 262144 states"),
    (json.dumps({"enum": list(range(10**6))}), "the schema"),
    ("[" * 100, "the schema: at byte"),
    (json.dumps({"properties": {"a" * 100_000 + str(i): {} for i in range(9)}}), "needs more than"),
    (json.dumps({"allOf": [{"properties": {f"p{i}": {}}} for i in range(30_000)]}), "takes too much work"),
    (json.dumps({"$defs": {str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(200)}, "$ref": "#/$defs/0"}), "refer to each other"),
    (json.dumps({"allOf": [{"anyOf": [{"minimum": i}, {"minLength": i}]} for i in range(40)]}), "takes too much work"),
]


def byte_tokenizer(folder):
    """A tokenizer whose ids 0 to 255 are bytes; 256 ends a text; some are longer."""
    spell = bytes_to_characters()
    tokens = [bytes([byte]) for byte in range(256)]
    longer = ['{"', '":', "true", '"}', "\u00e9", "\u65e5\u672c", "], [", "12", '", "', "\\u00"]
    tokens += [text.encode() for text in longer]
    vocab = {"".join(map(spell.get, token)): id for id, token in enumerate(tokens)}
    end = len(vocab)
    path = folder / "tokenizer.json"
    special = {"id": end, "content": "<end>", "special": True, "normalized": False}
    special |= {"single_word": False, "lstrip": False, "rstrip": False}
    path.write_text(
        json.dumps(
            {
                "added_tokens": [special],
                "model": {"type": "BPE", "vocab": vocab, "merges": []},
                "decoder": {"type": "ByteLevel"},
            }
        )
    )
    return path, end


def bytes_to_characters():
    """How byte-level BPE spells bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    spell = {b: chr(b) if b in plain else chr(next(rest)) for b in range(256)}
    assert sorted(spell.values()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    return spell


class Instances:
    """Draws values that a schema describes, more or less."""

    def __init__(self, schema, draw):
        self.root, self.draw = schema, draw
        self.order = []
        self.note_order(schema)

    def note_order(self, schema):
        if isinstance(schema, dict):
            for key, value in schema.items():
                if key == "properties":
                    self.order += value
                if key == "required":
                    self.order += value
                self.note_order(value)
        if isinstance(schema, list):
            for value in schema:
                self.note_order(value)

    def ordered(self, value):
        """The value with keys in the order of the schema, the others at the end."""
        if isinstance(value, list):
            return [self.ordered(each) for each in value]
        if not isinstance(value, dict):
            return value
        place = {key: index for index, key in reversed(list(enumerate(self.order)))}
        keys = sorted(value, key=lambda key: (place.get(key, 10**6), key))
        return {key: self.ordered(value[key]) for key in keys}

    def anything(self, depth=0):
        kind = self.draw.randrange(9 if depth < 2 else 7)
        if kind == 7:
            return [self.anything(depth + 1) for _ in range(self.draw.randrange(3))]
        if kind == 8:
            return {self.text(): self.anything(depth + 1) for _ in range(self.draw.randrange(3))}
        return [None, True, False, self.draw.randrange(-20, 300), self.number(), self.text(), self.text()][kind]

    def number(self):
        return self.draw.choice([self.draw.randrange(-4, 20), self.draw.randrange(-400, 1600) / 128 + 1 / 256])

    def text(self):
        letters = 'abcx019"\\/é日😀\t -_'
        return "".join(self.draw.choice(letters) for _ in range(self.draw.randrange(5)))

    def of(self, schema, depth=0):
        draw = self.draw
        if draw.random() < 0.06 or isinstance(schema, bool) or depth > 6:
            return self.anything(depth)
        if "$ref" in schema:
            target = self.root
            for step in schema["$ref"].split("/")[1:]:
                target = target[step.replace("~1", "/")]
            return self.of(target, depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            if key in schema and draw.random() < 0.8:
                return self.of(draw.choice(schema[key]), depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return draw.choice(schema["enum"])
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        if not kinds and {"properties", "required"} & schema.keys():
            kinds = ["object"]
        if not kinds and {"minimum", "maximum"} & schema.keys():
            kinds = ["number"]
        if not kinds and {"maxLength"} & schema.keys():
            kinds = ["string"]
        kind = draw.choice(kinds) if kinds else "any"
        make = getattr(self, f"a_{kind}", None)
        return make(schema, depth) if make else self.anything(depth)

    def a_null(self, schema, depth):
        return None

    def a_boolean(self, schema, depth):
        return self.draw.random() < 0.5

    def a_integer(self, schema, depth):
        ends = [schema[key] for key in schema if key.lower().endswith(("minimum", "maximum"))]
        near = [int(end) + step for end in ends for step in (-2, -1, 0, 1, 2)]
        return self.draw.choice(near + [self.draw.randrange(-1500, 1500)])

    def a_number(self, schema, depth):
        ends = [schema[key] for key in schema if key.lower().endswith(("minimum", "maximum"))]
        near = [end + step / 64 for end in ends for step in (-65, -1, -0.25, 0, 0.25, 1, 65)]
        whole = [int(x) if x == int(x) else x for x in near + [self.number()]]
        return self.draw.choice(whole)

    def a_string(self, schema, depth):
        likely = ["abc", "foo-123", "bar-000", "xé", "9", "ab", "c", 'a"', "\\"]
        return self.draw.choice([self.text(), self.draw.choice(likely)])

    def a_array(self, schema, depth):
        count = self.draw.randrange(schema.get("minItems", 0), schema.get("minItems", 0) + 3)
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        return [
            self.of(first[i] if i < len(first) else rest, depth + 1) for i in range(count)
        ]

    def a_object(self, schema, depth):
        value = {}
        for key, each in schema.get("properties", {}).items():
            if self.draw.random() < (0.95 if key in schema.get("required", []) else 0.5):
                value[key] = self.of(each, depth + 1)
        for key in schema.get("required", []):
            if key not in value and self.draw.random() < 0.9:
                value[key] = self.anything(depth + 1)
        more = schema.get("additionalProperties", True)
        while self.draw.random() < 0.3:
            value.setdefault(self.draw.choice([self.text(), "a", "abc"]), self.of(more, depth + 1))
        return value


def takes(grammar, text):
    """Whether the bytes of `text` are a text of the grammar."""
    matcher = Matcher(grammar)
    for byte in text.encode():
        try:
            matcher.accept(byte)
        except Failure as failure:
            assert failure.args[0] == 3, failure
            return False
    return matcher.complete


def draw_text(grammar, end, pieces, draw):
    """A text of ids that are drawn from masks. Ids that close something are likelier."""
    matcher, text = Matcher(grammar), b""
    closing = {*b'"}]', end}
    while len(text) < 20_000:
        words = matcher.mask(end + 1)
        ids = [id for id in range(end + 1) if words[id // 32] >> id % 32 & 1]
        likely = [id for id in ids if id in closing]
        id = draw.choice(likely if likely and draw.random() < 0.4 else ids)
        matcher.accept(id)
        if id == end:
            assert matcher.finished
            return text.decode()
        text += pieces[id]
    return None


def main():
    library, scratch = Library(sys.argv[1]), pathlib.Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    scratch.mkdir(parents=True, exist_ok=True)
    path, end = byte_tokenizer(scratch)
    tokenizer = Tokenizer(library, path)
    reverse = {character: byte for byte, character in bytes_to_characters().items()}
    spelled = json.loads(path.read_text())["model"]["vocab"]
    pieces = {id: bytes(map(reverse.get, token)) for token, id in spelled.items()}
    draw, wrong, seen = random.Random(1), 0, [0, 0]

    def complain(what, schema, text):
        nonlocal wrong
        wrong += 1
        print(f"{what}: {text!r} of {json.dumps(schema, ensure_ascii=False)}")

    for schema in SCHEMAS:
        grammar = Grammar(tokenizer, "json_schema", json.dumps(schema), [end])
        judge, instances = jsonschema.Draft202012Validator(schema), Instances(schema, draw)
        for _ in range(count):
            value = instances.ordered(instances.of(schema))
            valid = judge.is_valid(value)
            seen[valid] += 1
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            if takes(grammar, text) != valid:
                complain("refused" if valid else "taken", schema, text)
            elif valid and not takes(grammar, json.dumps(value, ensure_ascii=False, indent=2)):
                complain("refused with lines", schema, text)
        for _ in range(max(2, count // 10)):
            text = draw_text(grammar, end, pieces, draw)
            if text is None:
                continue
            try:
                valid = judge.is_valid(json.loads(text))
            except json.JSONDecodeError:
                valid = False
            if not valid:
                complain("drawn", schema, text)
    for name, (good, bad) in FORMATS.items():
        grammar = Grammar(tokenizer, "json_schema", json.dumps({"type": "string", "format": name}))
        for text in good + bad:
            if takes(grammar, json.dumps(text)) != (text in good):
                complain("format", name, text)
    for source, message in REFUSED:
        try:
            Grammar(tokenizer, "json_schema", source)
            complain("not refused", source[:100], message)
        except Failure as failure:
            if message not in failure.args[1] or "\n" in failure.args[1]:
                complain("says", source[:100], failure.args[1])
    print(f"{len(SCHEMAS)} schemas: {seen[1]} valid instances, {seen[0]} others")
    if wrong or len(SCHEMAS) < 60 or min(seen) < 10 * len(SCHEMAS):
        sys.exit(f"{wrong} differences")


main()
