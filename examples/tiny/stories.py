#!/usr/bin/env python3
"""Simple English stories from a grammar: what the model of this folder reads.

A story has a hero, a friend and one of eight plots, each with a beginning, a
trouble and an end; the same seed gives the same stories. Earlier alternatives
of a choice are more frequent than later ones, so that a model of the stories
has a clear favourite at every choice.

usage: stories.py [COUNT] [SEED]
"""

import dataclasses
import random
import sys

BOYS = "Tom Ben Max Sam Leo Tim Jack Finn".split()
GIRLS = "Lily Mia Anna Lucy Zoe Ella Rose Sue".split()
KINDS = "fox rabbit cat bear dog mouse duck owl frog pig goat bird".split()
TRAITS = "little kind happy brave small clever old funny shy quiet".split()
HOMES = [
    "in a small house near the river",
    "in the green forest",
    "on a big farm",
    "under an old tree",
    "in a warm cave on the hill",
    "in a tiny house by the sea",
]
PLACES = [
    "the river",
    "the forest",
    "the garden",
    "the lake",
    "the hill",
    "the farm",
    "the big tree",
    "the old bridge",
]
DOINGS = "play run sing swim dance read jump climb paint sleep".split()
TIMES = [
    "One day",
    "One sunny morning",
    "One cold morning",
    "One warm evening",
    "After lunch",
    "The next day",
]
COLORS = "red blue green yellow white brown".split()
LOOKS = "strong big tall new".split()
MINE = "ball hat book kite boat scarf drum bell".split()
FOODS = [
    ("some apples", "them", "apples were"),
    ("a cake", "it", "cake was"),
    ("some berries", "them", "berries were"),
    ("a pie", "it", "pie was"),
    ("some nuts", "them", "nuts were"),
    ("a melon", "it", "melon was"),
    ("some pears", "them", "pears were"),
]
PARTS = [
    ("a tail", "tail was"),
    ("two long ears", "ears were"),
    ("four white feet", "feet were"),
    ("a soft nose", "nose was"),
]
PROJECTS = [
    ("a house", "in the tree", "wood"),
    ("a boat", "for the lake", "wood"),
    ("a wall", "around the garden", "stones"),
    ("a bridge", "over the river", "stones"),
    ("a nest", "for the birds", "sticks"),
]
SECRETS = [
    ("a small key", "an old door", "a room full of books"),
    ("an old map", "a deep cave", "a box full of gold"),
    ("a shiny stone", "a tall gate", "a garden full of flowers"),
]


@dataclasses.dataclass
class Character:
    """Someone with a name: 'Lily', a rabbit, she."""

    name: str
    kind: str
    trait: str
    he: str
    him: str
    his: str

    @property
    def He(self):
        return self.he.capitalize()

    @property
    def His(self):
        return self.his.capitalize()


def article(phrase):
    """'an old owl', 'a fox'."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


class Story:
    """One story: the choices, and who takes part."""

    def __init__(self, rng):
        self.rng = rng
        self.hero = self.character()
        self.friend = self.character()
        while self.friend.name == self.hero.name or (
            self.friend.kind == self.hero.kind
        ):
            self.friend = self.character()

    def pick(self, choices):
        weights = [1 / (i + 1.5) ** 0.7 for i in range(len(choices))]
        return self.rng.choices(choices, weights)[0]

    def two(self, choices):
        first = self.pick(choices)
        second = self.pick(choices)
        while second == first:
            second = self.pick(choices)
        return first, second

    def character(self):
        male = self.rng.random() < 0.55
        words = ("he", "him", "his") if male else ("she", "her", "her")
        name = self.pick(BOYS if male else GIRLS)
        return Character(name, self.pick(KINDS), self.pick(TRAITS), *words)

    def opening(self):
        a, b = self.two(DOINGS)
        x, y = self.hero, self.friend
        who = f"{article(x.trait)} {x.kind} named {x.name}"
        home = self.pick(HOMES)
        return self.pick(
            [
                f"Once upon a time, there was {who}. {x.He} lived {home}. "
                f"{x.name} loved to {a} and {b}.",
                f"Once there was {who}. {x.He} lived {home} and liked to {a}. "
                f"{x.His} best friend was {article(y.kind)} named {y.name}.",
                f"{x.name} was {article(x.trait)} {x.kind} who lived {home}. "
                f"Every day, {x.he} liked to {a} and {b}.",
            ]
        )

    def lost(self):
        """Something is gone; a friend has found it."""
        x, y = self.hero, self.friend
        color, thing = self.pick(COLORS), self.pick(MINE)
        here, there = self.two(PLACES)
        return [
            f"{x.name} had {article(color)} {thing}. {self.pick(TIMES)}, "
            f"{x.name} could not find {x.his} {thing}.",
            f"{x.He} looked near {here}, but it was not there. {x.He} looked "
            f"near {there}, but it was not there. {x.name} was "
            f"{self.pick(['very sad', 'sad and began to cry'])}.",
            f'Then {x.he} met {y.name} the {y.kind}. "Why are you sad?" asked '
            f'{y.name}. "I lost my {color} {thing}," said {x.name}.',
            f'"I saw {article(color)} {thing} near {self.pick(PLACES)}," said '
            f"{y.name}. They ran there and found the {thing}.",
            f'"Thank you," said {x.name}. "You are '
            + self.pick(["a good friend", "so kind", "very clever"])
            + '."',
        ]

    def share(self):
        """Someone is hungry; food tastes better together."""
        x, y = self.hero, self.friend
        food, it, was = self.pick(FOODS)
        return [
            f"{self.pick(TIMES)}, {x.name} found {food} near "
            f"{self.pick(PLACES)}. {x.He} wanted to eat {it} all alone.",
            f"Then {x.he} saw {article(y.kind)} named {y.name}. {y.name} was "
            f"very hungry and had no food.",
            f'"Please, can I have some?" asked {y.name}. {x.name} thought for '
            f'a moment. "Yes," said {x.name}. "We can share."',
            f"They sat down and ate together. The {was} very sweet.",
            self.pick(
                [
                    f"{x.name} learned that it is good to share.",
                    f'"This is the best food in the world," said {y.name}.',
                ]
            ),
        ]

    def stuck(self):
        """Someone is in trouble; the hero helps."""
        x, y = self.hero, self.friend
        where, way = self.pick(
            [
                ("in a deep hole", f"found a long rope and pulled {y.him} out"),
                ("in the mud", f"took {y.his} hand and pulled {y.him} out"),
                ("in a tall tree", f"found a ladder and helped {y.him} down"),
                ("under a heavy stone", "pushed the stone away"),
            ]
        )
        return [
            f"{self.pick(TIMES)}, {x.name} walked to {self.pick(PLACES)}. "
            f"Suddenly, {x.he} heard a loud cry.",
            f"It was {y.name} the {y.kind}. {y.He} was stuck {where}. "
            f'"Help me, please!" said {y.name}. "I am scared."',
            f'"Do not worry," said {x.name}. "I will help you." {x.He} {way}.',
            f"{y.name} was safe and very happy. {y.He} hugged {x.name} and "
            f'said, "Thank you."',
        ]

    def rain(self):
        """A game outside, a storm, and what comes after it."""
        x, y = self.hero, self.friend
        game = self.pick(DOINGS[:5])
        shelter = self.pick(["a cave", "an old house", "a big tree", "a barn"])
        return [
            f"{self.pick(TIMES)}, {x.name} and {y.name} the {y.kind} went to "
            f"{self.pick(PLACES)} to {game}.",
            "Soon the sky was dark, and the rain began to fall. "
            f'"I am wet and cold," said {y.name}.',
            f'"Come with me," said {x.name}. They ran to {shelter} and waited. '
            + self.pick(
                [
                    f"{x.name} told {y.name} a funny story, and they "
                    "laughed.",
                    f"{y.name} was afraid, so {x.name} sang a song for "
                    f"{y.him}.",
                ]
            ),
            "At last the rain stopped. The sun came out, and they saw a "
            "beautiful rainbow over the hill.",
        ]

    def race(self):
        """A race in which somebody falls."""
        x, y = self.hero, self.friend
        here, there = self.two(PLACES)
        return [
            f"{self.pick(TIMES)}, {x.name} and {y.name} the {y.kind} had a "
            f"race from {here} to {there}.",
            f'"I am very fast," said {y.name}. "I will win." They ran and ran. '
            f"{y.name} was first, and {x.name} was behind {y.him}.",
            f"Then {y.name} fell down and hurt {y.his} foot. {x.name} did not "
            f"run past {y.him}. {x.He} stopped and helped {y.him} up.",
            f"They walked to {there} together. "
            f'"We both win," said {x.name}, and {y.name} smiled.',
        ]

    def build(self):
        """Work that is too hard for one."""
        x, y = self.hero, self.friend
        work, where, stuff = self.pick(PROJECTS)
        noun = work.split()[1]
        return [
            f"{self.pick(TIMES)}, {x.name} wanted to build {work} {where}. "
            f"But the {stuff} {'were' if stuff[-1] == 's' else 'was'} too "
            f"heavy for one {x.kind}.",
            f'{x.He} asked {y.name} the {y.kind}, "Can you help me?" '
            f'"Yes, I can," said {y.name}. "I am strong."',
            f"They worked all day. {x.name} carried the {stuff}, and {y.name} "
            f"made the {noun}.",
            f"In the evening, the {noun} was ready. It was {self.pick(LOOKS)} "
            f"and beautiful. They were tired but happy.",
        ]

    def secret(self):
        """A find that opens a place nobody knew."""
        x, y = self.hero, self.friend
        find, door, inside = self.pick(SECRETS)
        return [
            f"{self.pick(TIMES)}, {x.name} found {find} near "
            f"{self.pick(PLACES)}. {x.He} showed it to {y.name} the {y.kind}.",
            f'"What is it for?" asked {y.name}. "I do not know," said '
            f'{x.name}. "Let us go and see."',
            f"They walked for a long time. Behind {self.pick(PLACES)}, they "
            f"saw {door}. {x.name} was scared, but {y.name} was brave.",
            f"They went inside and found {inside}. "
            f'"This is our secret," said {x.name}.',
        ]

    def sound(self):
        """A noise in the night, and who made it."""
        x, y = self.hero, self.friend
        part, was = self.pick(PARTS)
        return [
            f"One night, {x.name} could not sleep. {x.He} heard a strange "
            "sound at the door. It was dark, and "
            f"{x.he} was afraid.",
            f'"Who is there?" asked {x.name}. Nobody answered. {x.name} '
            f"opened the door and saw {part} in the light of the moon. The "
            f"{was} wet.",
            f"It was not a monster. It was only {y.name} the {y.kind}. "
            f'"I am lost and cold," said {y.name}.',
            f'"Come in," said {x.name}. {x.He} made some hot tea and gave '
            f"{y.him} a warm bed.",
        ]

    def ending(self):
        x, y = self.hero, self.friend
        return self.pick(
            [
                f"From that day on, {x.name} and {y.name} were best friends.",
                f"{x.name} and {y.name} were happy and played until the sun "
                "went down.",
                f"Then {x.name} went home and told {x.his} mother about the "
                "day.",
                f"That night, {x.name} slept well and dreamed of {y.name}.",
            ]
        )

    def text(self):
        plots = [
            self.lost,
            self.share,
            self.stuck,
            self.rain,
            self.build,
            self.secret,
            self.race,
            self.sound,
        ]
        parts = [self.opening(), *self.pick(plots)(), self.ending()]
        return " ".join(parts)


def stories(seed):
    """Yields stories without end."""
    rng = random.Random(seed)
    while True:
        yield Story(rng).text()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    source = stories(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print("\n\n".join(next(source) for _ in range(count)))
