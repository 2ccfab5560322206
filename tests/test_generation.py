"""What is counted of a decoding, on rounds made by hand."""

import pytest

from specdec.endings import Ending, trim
from specdec.errors import SpecdecError
from specdec.generation import Generation, Round, Text, Try


def a_round(*tries, emitted=(1,)):
    return Round(proposed=3, accepted=len(emitted) - 1, emitted=list(emitted), cached=0, tries=list(tries))


TREE = [
    # two children each; the second child, then the first, then none
    a_round(Try(2, 1), Try(2, 0), Try(2, None), emitted=(1, 2, 3)),
    # none at once
    a_round(Try(2, None)),
    # the first, then a leaf
    a_round(Try(2, 0), emitted=(1, 2)),
    # nothing was drafted
    a_round(),
]


def test_alpha_at_a_depth_counts_only_the_walks_that_came_there_and_found_children():
    done = Generation([Text([1], rounds=TREE)])
    # depth 0: yes, no, yes; depth 1: yes; depth 2: no
    assert done.alpha_by_depth == [2 / 3, 1.0, 0.0]


def test_acceptance_by_rank_counts_a_sibling_only_if_its_elders_were_rejected():
    done = Generation([Text([1], rounds=TREE)])
    # first children: rejected, accepted, rejected, rejected, accepted; second: accepted, rejected, rejected
    assert done.acceptance_by_rank == [2 / 5, 1 / 3]


def test_tau_is_tokens_per_verifier_call_and_sequence_still_going():
    long = Text([1], tokens=[0] * 7, rounds=TREE)
    short = Text([1], tokens=[0] * 3, rounds=TREE[:1])
    done = Generation([long, short], round_seconds=[0.5] * 4)
    assert (long.tau, short.tau, done.tau) == (7 / 4, 3.0, 2.0)
    assert (done.verifier_calls, done.seconds, done.tokens_per_second) == (4, 2.0, 5.0)


def test_nothing_decoded_has_no_rates():
    done = Generation([Text([1])])
    assert (done.tau, done.tokens_per_second, done.alpha_by_depth, done.acceptance_by_rank) == (0, 0, [], [])


# -- where texts end -------------------------------------------------------------------------------------


def to_text(tokens):
    return bytes(tokens).decode("utf-8", errors="replace")


@pytest.mark.parametrize(
    ("before", "emitted", "kept", "reason"),
    [
        (b"", b"abc", b"abc", None),
        (b"ab", b"cdEfg", b"cdE", "eos"),
        (b"ab", b"c. d", b"c.", "stop"),
        (b"ab.", b".cd", b".", "stop"),  # the stop string ".", and not one that began before
        (b"EN", b"Dab", b"D", "stop"),  # completed by a token of another round
        (b"a" * 9, b"bcd", b"b", "length"),
        (b"a" * 9, b"Ed", b"E", "eos"),
        ("abc é"[:4].encode() + b"\xc3", b"\xa9 b", b"\xa9", "stop"),  # a character in two tokens
    ],
)
def test_what_was_emitted_is_cut_where_plain_decoding_stops(before, emitted, kept, reason):
    ending = Ending(10, frozenset(b"E"), (".", "END", "é"), to_text)
    if before == b"EN":
        ending = Ending(10, frozenset(), (".", "END", "é"), to_text)
    assert ending.cut(list(before), list(emitted)) == (list(kept), reason)


def test_a_text_is_trimmed_before_the_first_of_the_stop_strings():
    assert trim("one. two\n\nthree.", ["\n\n", "."]) == "one"
    assert trim("one", ["."]) == "one"


def test_stop_strings_that_cannot_be_looked_for_are_refused():
    with pytest.raises(SpecdecError, match="max_new_tokens is 0"):
        Ending(0)
    with pytest.raises(SpecdecError, match="a stop string is empty"):
        Ending(1, stop=("",), to_text=to_text)
    with pytest.raises(SpecdecError, match="need `to_text`"):
        Ending(1, stop=("a",))
